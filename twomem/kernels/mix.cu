// What is distilled at each end: what was at the end before, faded, and what the stretch between them gives; at the
// first end, of the first memory. All without the bias, which is added to what is written. A thread has a column.
struct Shared {
  char unused;
};

// added, found: end batch column; carry: (batch or 1) end; held: (batch or 1) column
extern "C" __global__ void mix(const float* __restrict__ added, const float* __restrict__ carry, const float* __restrict__ held,
                               const float* __restrict__ bias, float* __restrict__ found, int ends, int batch, int columns,
                               int distilled, int own_carry, int own_held) {
  const int groups = (columns + THREADS - 1) / THREADS, row = blockIdx.x / groups;
  const int column = blockIdx.x % groups * THREADS + threadIdx.x;
  if (column >= columns) return;
  const float more = bias[column % distilled];
  float mixed = held[(own_held ? (long long)row * columns : 0) + column];
#pragma unroll 8
  for (int e = 0; e < ends; e++) {
    const long long at = ((long long)e * batch + row) * columns + column;
    mixed = fmaf(carry[own_carry * row * ends + e], mixed, added[at]);
    found[at] = mixed + more;
  }
}
