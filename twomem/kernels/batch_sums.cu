// Sums over the rows of up to eight matrices, divided by `scale`. A block has COLUMNS of one of them, a thread four.
#define LANES (COLUMNS / 4)
#define SIDE (THREADS / LANES)

struct Shared {
  float part[SIDE][COLUMNS];
};

// four numbers side by side, those that there are
DI void add_four(float* sum, const float* from, int there) {
#pragma unroll
  for (int k = 0; k < 4; k++)
    if (k < there) sum[k] += from[k];
}

extern "C" __global__ void batch_sums(const float* __restrict__ x0, const float* __restrict__ x1, const float* __restrict__ x2,
                                      const float* __restrict__ x3, const float* __restrict__ x4, const float* __restrict__ x5,
                                      const float* __restrict__ x6, const float* __restrict__ x7, const float* __restrict__ scale,
                                      float* __restrict__ f0, float* __restrict__ f1, float* __restrict__ f2,
                                      float* __restrict__ f3, float* __restrict__ f4, float* __restrict__ f5,
                                      float* __restrict__ f6, float* __restrict__ f7, int r0, int r1, int r2, int r3, int r4,
                                      int r5, int r6, int r7, int w0, int w1, int w2, int w3, int w4, int w5, int w6, int w7) {
  SHARED_MEMORY(Shared, sh)
  const float* matrices[8] = {x0, x1, x2, x3, x4, x5, x6, x7};
  float* found[8] = {f0, f1, f2, f3, f4, f5, f6, f7};
  const int all_rows[8] = {r0, r1, r2, r3, r4, r5, r6, r7}, widths[8] = {w0, w1, w2, w3, w4, w5, w6, w7};
  int block = blockIdx.x, first = 0, rows = 0, width = 0;
  const float* matrix = x0;
  float* to = f0;
  // which of them this block has; all places are known, so that they stay in registers
#pragma unroll
  for (int n = 0; n < 8; n++) {
    const int blocks = (widths[n] + COLUMNS - 1) / COLUMNS;
    if (block >= 0 && block < blocks) first = COLUMNS * block, rows = all_rows[n], width = widths[n], matrix = matrices[n], to = found[n];
    block -= blocks;
  }
  const int lane = threadIdx.x % LANES, side = threadIdx.x / LANES, column = first + 4 * lane, there = width - column;
  const float* from = matrix + column;
  float sum[4] = {};
  if (width % 4 == 0 && (size_t)matrix % 16 == 0) {
    if (there > 0)
#pragma unroll 8
      for (int row = side; row < rows; row += SIDE) {
        const float4 x = *(const float4*)(from + (long long)row * width);
        sum[0] += x.x, sum[1] += x.y, sum[2] += x.z, sum[3] += x.w;
      }
  } else {
#pragma unroll 4
    for (int row = side; row < rows; row += SIDE) add_four(sum, from + (long long)row * width, there);
  }
#pragma unroll
  for (int k = 0; k < 4; k++) sh.part[side][4 * lane + k] = sum[k];
  barrier();
  for (int own = threadIdx.x; own < COLUMNS && first + own < width; own += THREADS) {
    float total = 0.f;
#pragma unroll 8
    for (int other = 0; other < SIDE; other++) total += sh.part[other][own];
    to[first + own] = scale ? total / *scale : total;
  }
}
