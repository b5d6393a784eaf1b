/* The header alone, and twice. */
#include <lycaon/lycaon.h>
#include <lycaon/lycaon.h>

int main(void)
{
    return lycaon_abi_version() == LYCAON_ABI_VERSION ? 0 : 1;
}
