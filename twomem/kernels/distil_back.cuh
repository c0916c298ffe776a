// What `distil_back.cu` reads before it goes through the rows of the memories, and writes after.
// neighbours r of row s: the gradients of the warp's pairs
DI void load_back(const float* back, float scale, int first_pair, int batch, int count, pair_t (*y)[OUT][4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++) {
    const int p = blockIdx.x * PAIRS + first_pair + q;
    const bool in = p < batch * count && g < REAL_N;
    const float* from = back + (in ? (((long long)(p % count) * batch + p / count) * REAL_N + g) * REAL_R : 0);
#pragma unroll
    for (int x = 0; x < 2 * OUT; x++) {
      const int r = 8 * x + 2 * tq;
      y[q / 2][x / 2][2 * (x % 2) + q % 2] = pair(in && r < REAL_R ? scale * from[r] : 0.f, in && r + 1 < REAL_R ? scale * from[r + 1] : 0.f);
    }
  }
}

// neighbours f of column j: the values of the warp's pairs in its half of the depth
DI void load_values(const Shared& sh, const float* normal, const float* fades, int first_pair, int half, pair_t (*v)[2 * TILES][2]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++) {
    const int step = sh.step[first_pair + q];
    const bool in = step >= 0 && g < REAL_N;
    const float fade = in ? fades[step] : 0.f;
    const float* from = normal + (in ? (((long long)step * 3 + 2) * REAL_N + g) * REAL_D : 0);
#pragma unroll
    for (int x = 0; x < 2 * FD; x++) {
      const int f = 16 * half * FD + 8 * x + 2 * tq;
      v[x / 2][q][x % 2] = pair(in && f < REAL_D ? fade * from[f] : 0.f, in && f + 1 < REAL_D ? fade * from[f + 1] : 0.f);
    }
  }
}

// Gradients of the values and of what is left of them, in the warp's half of the depth.
DI void store_values(
    Shared& sh, const float* normal, const float* fades, float* d_rows, float by, int first_pair, int half,
    const float (*to_values)[2 * TILES][4]) {
  const int lane = threadIdx.x & 31, g = lane >> 2, tq = lane & 3;
#pragma unroll
  for (int q = 0; q < 2 * TILES; q++) {
    const int step = sh.step[first_pair + q];
    const float fade = step >= 0 ? by * fades[step] : 0.f;
    float to_fade = 0.f;
#pragma unroll
    for (int x = 0; x < 4 * FD; x++) {
      const int f = 16 * (half * FD + x / 4) + 8 * (x / 2 % 2) + g, j = 2 * tq + x % 2;
      if (step < 0 || f >= REAL_D || j >= REAL_N) continue;
      const long long at = (((long long)step * 3 + 2) * REAL_N + j) * REAL_D + f;
      const float d = to_values[x / 4][q][x % 4];
      to_fade = fmaf(d, normal[at], to_fade);
      d_rows[at] = fade * d;
    }
    to_fade = by * over_g(over_tq(to_fade));
    if (lane == 0) sh.to_fade[half][first_pair + q] = to_fade;
  }
}

DI void store_rows(const Shared& sh, float* d_rows, float* d_fades, float by) {
  for (int x = threadIdx.x; x < PAIRS * 16 * (D / WORD); x += THREADS) {
    const int row = x / (D / WORD), i = WORD * (x % (D / WORD)), m = row % 16, step = sh.step[row / 16];
    if (step < 0 || (m & 7) >= REAL_N || i >= REAL_D) continue;
    float* to = d_rows + (((long long)step * 3 + (m >> 3)) * REAL_N + (m & 7)) * REAL_D + i;
    const float* from = &sh.rows[row / 16][m][i];
#if WORD == 4
    *(float4*)to = make_float4(by * from[0], by * from[1], by * from[2], by * from[3]);
#else
    *to = by * *from;
#endif
  }
  for (int x = threadIdx.x; x < PAIRS; x += THREADS)
    if (sh.step[x] >= 0) d_fades[sh.step[x]] = sh.to_fade[0][x] + sh.to_fade[1][x];
}
