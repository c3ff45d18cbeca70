// Kernels of linear attention; follows.
