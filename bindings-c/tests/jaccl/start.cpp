// Starts a group as the environment says, and tells how that went.
#include <exception>
#include <iostream>
#include <string>

#include <jaccl/jaccl.h>

int main(int argc, char** argv) {
    const std::string how = argc > 1 ? argv[1] : "";
    std::shared_ptr<jaccl::Group> group;
    try {
        group = jaccl::init(how == "strict");
    } catch (const std::runtime_error& error) {
        std::cout << "thrown: " << error.what() << std::endl;
        return 0;
    }
    if (!group) {
        std::cout << "no group" << std::endl;
        return 0;
    }
    int sum = group->rank() + 1;
    group->all_sum(&sum, &sum, sizeof sum, jaccl::Int32);
    std::cout << "rank " << group->rank() << " of " << group->size() << ": sum " << sum
              << std::endl;
    return 0;
}
