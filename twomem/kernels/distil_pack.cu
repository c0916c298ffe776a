// What the kernels of single steps read as operands, in the order in which the lanes of a warp hold it.
//
// The first `maps` blocks pack the map: for rows i and i + 1 of the memory, the x-th 16 columns of each half of the
// depth, for both halves, for both rows, tiles of 16 x 16 as right operands. Contracted is the depth or, if `turned`, what is
// distilled. The other blocks pack the gradient of what is distilled as right operand and the values as left
// operand, both contracted over pairs: two pairs at a time, `distil_weight.cu` reads them.
#define FD ((D / 16 + 1) / 2)
#define THREADS 256

struct Shared {
  char unused;
};

// 8 numbers of a lane: tile or row, half of the contraction, neighbour
DI void pack_map(const float* weight, elem* packed, int turned, long long n) {
  const int lane = n % 32, g = lane >> 2, tq = lane & 3, tile = n / 32 % (R / 16);
  const long long rest = n / 32 / (R / 16);
  const int i = 2 * (int)(rest / 4 / FD) + (int)(rest & 1), f0 = 16 * ((int)(rest >> 1 & 1) * FD + (int)(rest / 4 % FD)), r0 = 16 * tile;
  if (i >= (REAL_D + 1) / 2 * 2) return;
  float x[8];
#pragma unroll
  for (int c = 0; c < 8; c++) {
    const int column = 8 * (c >> 2) + g, contracted = 8 * (c >> 1 & 1) + 2 * tq + (c & 1);
    const int r = r0 + (turned ? contracted : column), f = f0 + (turned ? column : contracted);
    x[c] = r < REAL_R && i < REAL_D && f < REAL_D ? weight[((long long)r * REAL_D + i) * REAL_D + f] : 0.f;
  }
  const pair_t both[4] = {pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), pair(x[6], x[7])};
  store_pairs(packed + 8 * n, both);
}

DI void pack_rows(
    const float* normal, const float* fades, const float* back, float scale, elem* y, elem* v, long long n, int batch,
    int time, int first, int count) {
  const int lane = n % 32, g = lane >> 2, tq = lane & 3, tile = n / 32 % (Y / 16 + 2 * FD);
  const long long two = n / 32 / (Y / 16 + 2 * FD);
  const bool values = tile >= Y / 16;
  float x[8];
#pragma unroll
  for (int c = 0; c < 8; c++) {
    // the pair is the slower half of a right operand's contraction; a left operand here has but 8 neighbours
    const long long p = 2 * two + (values ? c >> 2 : c >> 1 & 1);
    const int s = 2 * tq + (c & 1), column = 8 * (values ? c >> 1 & 1 : c >> 2) + g;
    const long long sequence = p / count, late = p % count, step = sequence * time + first + late;
    const int f = 16 * (tile - Y / 16) + column, r = 16 * tile + column;
    x[c] = 0.f;
    if (p < (long long)batch * count && s < REAL_N) {
      if (values && f < REAL_D) x[c] = fades[step] * normal[((step * 3 + 2) * REAL_N + s) * REAL_D + f];
      if (!values && r < REAL_R) x[c] = scale * back[((late * batch + sequence) * REAL_N + s) * REAL_R + r];
    }
  }
  const pair_t all[4] = {pair(x[0], x[1]), pair(x[2], x[3]), pair(x[4], x[5]), pair(x[6], x[7])};
  if (values)
    store_pairs(v + ((two * 2 * FD + tile - Y / 16) * 32 + lane) * 8, all);
  else
    store_pairs(y + ((two * (Y / 16) + tile) * 32 + lane) * 8, all);
}

extern "C" __global__ void __launch_bounds__(THREADS) distil_pack(
    const float* __restrict__ weight, elem* __restrict__ packed, int turned, int maps, const float* __restrict__ normal,
    const float* __restrict__ fades, const float* __restrict__ back, const float* __restrict__ scale,
    elem* __restrict__ y, elem* __restrict__ v, int batch, int time, int first, int count, int twos) {
  if ((int)blockIdx.x < maps) {
    pack_map(weight, packed, turned, (long long)blockIdx.x * THREADS + threadIdx.x);
  } else {
    const long long n = (long long)(blockIdx.x - maps) * THREADS + threadIdx.x;
    if (n < (long long)twos * 32 * (Y / 16 + 2 * FD))
      pack_rows(normal, fades, back, scale ? *scale : 1.f, y, v, n, batch, time, first, count);
  }
}
