#include <cstdio>

#include <lycaon/lycaon.hpp>

int main() try {
    const lycaon::Group group = lycaon::init();
    std::printf("sum %d\n", group.all_reduce_value(group.rank() + 1, lycaon::Op::sum));
    return lycaon_abi_version() == LYCAON_ABI_VERSION ? 0 : 1;
} catch (const lycaon::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
}
