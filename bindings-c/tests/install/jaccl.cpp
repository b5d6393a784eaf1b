#include <jaccl/jaccl.h>
#include <jaccl/types.h>

#include <iostream>

int main() {
    const auto group = jaccl::init();
    if (!group) {
        return 1;
    }
    jaccl::bfloat16_t sum(static_cast<float>(group->rank() + 1));
    group->all_sum(&sum, &sum, sizeof sum, jaccl::BFloat16);
    std::cout << "sum " << static_cast<float>(sum) << std::endl;
    return 0;
}
