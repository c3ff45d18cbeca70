# A translation unit for each pair of head sizes.
add_pair_instances(cplab_kernels_portable "${family_folder}/forward.cu.in" attend_decode "${decode_head_pairs}")
target_sources(cplab_kernels PRIVATE "${family_folder}/kernels.cpp")
