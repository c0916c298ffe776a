// Linear layers in a row, for few rows: a block has a row, and holds what each layer makes.
#include "layer.cuh"

struct Shared {
  float x[WIDEST], y[WIDEST];
};

// given: row n0; weights: n1 n0, n2 n1 and so on; the bits of `rectified` are those of layers
extern "C" __global__ void layers(const float* __restrict__ given, float* __restrict__ found, const float* __restrict__ w0,
                                  const float* __restrict__ w1, const float* __restrict__ w2, const float* __restrict__ w3,
                                  const float* __restrict__ b0, const float* __restrict__ b1, const float* __restrict__ b2,
                                  const float* __restrict__ b3, int n0, int n1, int n2, int n3, int n4, int rectified) {
  SHARED_MEMORY(Shared, sh)
  for (int i = threadIdx.x; i < n0; i += THREADS) sh.x[i] = given[(long long)blockIdx.x * n0 + i];
  barrier();
  int last = n1;
  const float* held = sh.y;
  layer(sh.y, sh.x, w0, b0, n0, n1, rectified & 1);
  barrier();
  if (w1) layer(sh.x, sh.y, w1, b1, n1, n2, rectified & 2), last = n2, held = sh.x;
  barrier();
  if (w2) layer(sh.y, sh.x, w2, b2, n2, n3, rectified & 4), last = n3, held = sh.y;
  barrier();
  if (w3) layer(sh.x, sh.y, w3, b3, n3, n4, rectified & 8), last = n4, held = sh.x;
  barrier();
  for (int i = threadIdx.x; i < last; i += THREADS) found[(long long)blockIdx.x * last + i] = held[i];
}
