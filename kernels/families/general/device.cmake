# Sources of this family for nvcc.
target_sources(cplab_kernels_portable PRIVATE "${family_folder}/backward.cu" "${family_folder}/forward.cu")
target_sources(cplab_kernels PRIVATE "${family_folder}/kernels.cpp")
