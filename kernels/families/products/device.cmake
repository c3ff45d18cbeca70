# Sources of the products for latents, for nvcc.
target_sources(cplab_kernels_portable PRIVATE "${family_folder}/products.cu")
