# What kernels for Hopper share on the host, with the driver's API.
target_sources(cplab_kernels PRIVATE "${family_folder}/hopper/tensor_map.cpp")
