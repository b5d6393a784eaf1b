# The example of the cxx bridge is built by CMake.

examples: c-tools
