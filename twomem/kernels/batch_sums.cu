// Sums over the rows of up to eight matrices, divided by `scale`. A block has 32 columns of one of them.
#define SIDE (THREADS / 32)

struct Shared {
  float part[SIDE][33];
};

extern "C" __global__ void batch_sums(const float* __restrict__ x0, const float* __restrict__ x1, const float* __restrict__ x2,
                                      const float* __restrict__ x3, const float* __restrict__ x4, const float* __restrict__ x5, const float* __restrict__ x6, const float* __restrict__ x7,
                                      const float* __restrict__ scale,
                                      float* __restrict__ f0, float* __restrict__ f1, float* __restrict__ f2, float* __restrict__ f3,
                                      float* __restrict__ f4, float* __restrict__ f5, float* __restrict__ f6, float* __restrict__ f7, int r0, int r1, int r2, int r3, int r4, int r5, int r6, int r7,
                                      int w0, int w1, int w2, int w3, int w4, int w5, int w6, int w7) {
  SHARED_MEMORY(Shared, sh)
  const float* matrices[8] = {x0, x1, x2, x3, x4, x5, x6, x7};
  float* found[8] = {f0, f1, f2, f3, f4, f5, f6, f7};
  const int rows[8] = {r0, r1, r2, r3, r4, r5, r6, r7}, widths[8] = {w0, w1, w2, w3, w4, w5, w6, w7};
  int which = 0, block = blockIdx.x;
  while (which < 7 && block >= (widths[which] + 31) / 32) {
    block -= (widths[which] + 31) / 32;
    which++;
  }
  const int lane = threadIdx.x & 31, side = threadIdx.x >> 5, width = widths[which], column = 32 * block + lane;
  const float* from = matrices[which];
  float sum = 0.f;
  if (column < width)
#pragma unroll 8
    for (int row = side; row < rows[which]; row += SIDE) sum += from[(long long)row * width + column];
  sh.part[side][lane] = sum;
  barrier();
  if (side > 0 || column >= width) return;
  for (int other = 1; other < SIDE; other++) sum += sh.part[other][lane];
  found[which][column] = scale ? sum / *scale : sum;
}
