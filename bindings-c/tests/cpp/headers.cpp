// A header alone, and twice. HEADER says which.
#include HEADER
#include HEADER

int main() {}
