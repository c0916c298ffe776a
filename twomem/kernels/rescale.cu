// Divides up to eight lists of numbers by `scale`, in place.
struct Shared {
  char unused;
};

DI void divide(float* x, int count, float by) {
#pragma unroll 4
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < count; i += gridDim.x * THREADS) x[i] *= by;
}

extern "C" __global__ void rescale(float* x0, float* x1, float* x2, float* x3, float* x4, float* x5, float* x6, float* x7,
                                   const float* __restrict__ scale, int n0, int n1, int n2, int n3, int n4, int n5, int n6, int n7) {
  // by a power of two, multiplying is as exact as dividing
  const float by = 1.f / *scale;
  divide(x0, n0, by), divide(x1, n1, by), divide(x2, n2, by), divide(x3, n3, by);
  divide(x4, n4, by), divide(x5, n5, by), divide(x6, n6, by), divide(x7, n7, by);
}
