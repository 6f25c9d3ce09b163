// Attention in float, forward and backward, on tiles of 32 rows and 16 columns: queries and keys, or keys and
// queries for the gradients of keys. Thread 8y + x of a block has the rows 2y and 2y + 1. It has the columns
// x and x + 8 of scores, and the numbers 4x to 4x + 3 of every 32 numbers of vectors.
//
// Dynamic shared memory: two tiles of rows and two of columns, (2 · 32 + 2 · 16) · (head_dim + 4) floats; in
// the forward pass only one tile of rows.

static const u32 FLOAT_ROWS = 32, FLOAT_COLUMNS = 16;

// A thread's part: its two rows of a tile of scores, and of vectors up to 256 wide.
typedef float FloatScores[2][2];
typedef float FloatVectors[2][8][4];

// Σ a·b over the head, for this thread's rows of `a` and columns' rows of `b`.
static __device__ __forceinline__ void
float_products(FloatScores &to, const float *a, const float *b, u32 pitch, u32 head_dim) {
    u32 x = threadIdx.x % 8, y = threadIdx.x / 8;
#pragma unroll
    for (u32 i = 0; i < 4; i++) to[i / 2][i % 2] = 0;
    for (u32 c = 0; c < head_dim; c += 4) {
        float as[2][4], bs[2][4];
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            load_pack(as[i], a + (2 * y + i) * pitch + c);
            load_pack(bs[i], b + (x + 8 * i) * pitch + c);
        }
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
#pragma unroll
            for (u32 j = 0; j < 2; j++) {
#pragma unroll
                for (u32 k = 0; k < 4; k++) to[i][j] = fmaf(as[i][k], bs[j][k], to[i][j]);
            }
        }
    }
}

// to += weights · b, where the weights of a row are spread over its eight threads.
static __device__ __forceinline__ void
float_combine(FloatVectors &to, const FloatScores &weights, const float *b, u32 pitch, u32 head_dim) {
    u32 x = threadIdx.x % 8, first = threadIdx.x % WARP - x;
#pragma unroll
    for (u32 column = 0; column < FLOAT_COLUMNS; column++) {
        float w[2];
#pragma unroll
        for (u32 i = 0; i < 2; i++)
            w[i] = __shfl_sync(WHOLE_WARP, weights[i][column / 8], first + column % 8);
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
            u32 c = 32 * n + 4 * x;
            if (c >= head_dim) break;
            float v[4];
            load_pack(v, b + column * pitch + c);
#pragma unroll
            for (u32 k = 0; k < 4; k++) {
                to[0][n][k] = fmaf(w[0], v[k], to[0][n][k]);
                to[1][n][k] = fmaf(w[1], v[k], to[1][n][k]);
            }
        }
    }
}

// The maximum and the sum over the eight threads of a row.
static __device__ __forceinline__ float float_row_max(float x) {
    for (u32 step = 1; step < 8; step *= 2) x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, step));
    return x;
}
static __device__ __forceinline__ float float_row_sum(float x) {
    for (u32 step = 1; step < 8; step *= 2) x += __shfl_xor_sync(WHOLE_WARP, x, step);
    return x;
}

// Up to 32 queries from `first` on.
static __device__ __forceinline__ void forward_tile(
    float *y, size_t y_stride, float *lse, const AttentionInputs<float> &in, const Span &span, u32 first) {
    u32 head_dim = in.head_dim, pitch = head_dim + 4, head = blockIdx.y,
        kv_head = head / (in.heads / in.kv_heads);
    float *q_tile = (float *)dynamic_shared, *k_tile = q_tile + FLOAT_ROWS * pitch,
          *v_tile = k_tile + FLOAT_COLUMNS * pitch;
    Queries queries(span, first, FLOAT_ROWS, in.window);
    const float *q = in.q + (size_t)head * head_dim, *k = in.k + (size_t)kv_head * head_dim,
                *v = in.v + (size_t)kv_head * head_dim;
    bool k_aligned = aligned_rows(k, in.k_stride), v_aligned = aligned_rows(v, in.v_stride);
    u32 rows[2], keys[1];
    consecutive_rows(rows, queries.token, queries.count);
    copy_rows(q_tile, pitch, q, in.q_stride, rows, head_dim, aligned_rows(q, in.q_stride));
    Scoring scoring(in.scale, in.soft_cap);
    u32 start = queries.from / FLOAT_COLUMNS * FLOAT_COLUMNS, row = 2 * (threadIdx.x / 8);
    Range seen[2] = {queries.keys(row, in.window), queries.keys(row + 1, in.window)};
    Cursor cursor(span, in.segments, start);
    float largest[2] = {minus_infinity(), minus_infinity()}, total[2] = {};
    FloatVectors out = {};
    for (u32 base = start; base < queries.to; base += FLOAT_COLUMNS) {
        key_rows(keys, cursor, base, queries.to);
        copy_rows(k_tile, pitch, k, in.k_stride, keys, head_dim, k_aligned);
        copy_rows(v_tile, pitch, v, in.v_stride, keys, head_dim, v_aligned);
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        FloatScores weights;
        float_products(weights, q_tile, k_tile, pitch, head_dim);
        scoring.apply(weights);
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            float most = largest[i], sum = 0;
#pragma unroll
            for (u32 j = 0; j < 2; j++) {
                weights[i][j] =
                    seen[i].holds(base + threadIdx.x % 8 + 8 * j) ? weights[i][j] : minus_infinity();
                most = fmaxf(most, weights[i][j]);
            }
            most = float_row_max(most);
            // While no key has been attended to, all weights are 2^-∞.
            float shift = most == minus_infinity() ? 0 : most, fade = exp2f(largest[i] - shift);
#pragma unroll
            for (u32 j = 0; j < 2; j++) {
                weights[i][j] = exp2f(weights[i][j] - shift);
                sum += weights[i][j];
            }
            largest[i] = most;
            total[i] = total[i] * fade + sum;
#pragma unroll
            for (u32 n = 0; n < 32; n++) out[i][n / 4][n % 4] *= fade;
        }
        float_combine(out, weights, v_tile, pitch, head_dim);
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        float sum = float_row_sum(total[i]);
        if (row + i >= queries.count) continue;
        size_t token = queries.token + row + i;
        float *to = y + token * y_stride + (size_t)head * head_dim;
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 c = 32 * n + 4 * (threadIdx.x % 8) + j;
                if (c < head_dim) to[c] = out[i][n][j] / sum;
            }
        }
        if (threadIdx.x % 8 == 0) lse[token * in.heads + head] = (largest[i] + log2f(sum)) * LN_2;
    }
}

// dq of up to 32 queries from `first` on.
static __device__ __forceinline__ void backward_q_tile(
    float *dq, size_t dq_stride, const AttentionInputs<float> &in, const AttentionGradients<float> &given,
    const Span &span, u32 first) {
    u32 head_dim = in.head_dim, pitch = head_dim + 4, head = blockIdx.y,
        kv_head = head / (in.heads / in.kv_heads);
    float *q_tile = (float *)dynamic_shared, *dy_tile = q_tile + FLOAT_ROWS * pitch,
          *k_tile = dy_tile + FLOAT_ROWS * pitch, *v_tile = k_tile + FLOAT_COLUMNS * pitch;
    Queries queries(span, first, FLOAT_ROWS, in.window);
    const float *q = in.q + (size_t)head * head_dim, *k = in.k + (size_t)kv_head * head_dim,
                *v = in.v + (size_t)kv_head * head_dim, *dy = given.dy + (size_t)head * head_dim;
    bool k_aligned = aligned_rows(k, in.k_stride), v_aligned = aligned_rows(v, in.v_stride);
    u32 rows[2], keys[1];
    consecutive_rows(rows, queries.token, queries.count);
    copy_rows(q_tile, pitch, q, in.q_stride, rows, head_dim, aligned_rows(q, in.q_stride));
    copy_rows(dy_tile, pitch, dy, given.dy_stride, rows, head_dim, aligned_rows(dy, given.dy_stride));
    Scoring scoring(in.scale, in.soft_cap);
    u32 start = queries.from / FLOAT_COLUMNS * FLOAT_COLUMNS, row = 2 * (threadIdx.x / 8);
    float lse[2] = {}, delta[2] = {};
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        if (row + i >= queries.count) continue;
        size_t at = (size_t)(queries.token + row + i) * in.heads + head;
        lse[i] = given.lse[at], delta[i] = given.delta[at];
    }
    Range seen[2] = {queries.keys(row, in.window), queries.keys(row + 1, in.window)};
    Cursor cursor(span, in.segments, start);
    FloatVectors out = {};
    for (u32 base = start; base < queries.to; base += FLOAT_COLUMNS) {
        key_rows(keys, cursor, base, queries.to);
        copy_rows(k_tile, pitch, k, in.k_stride, keys, head_dim, k_aligned);
        copy_rows(v_tile, pitch, v, in.v_stride, keys, head_dim, v_aligned);
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        FloatScores weights, slopes;
        float_products(weights, q_tile, k_tile, pitch, head_dim);
        scoring.apply(weights);
        float_products(slopes, dy_tile, v_tile, pitch, head_dim);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            u32 r = i / 2, j = i % 2;
            scoring.gradient(
                weights[r][j], slopes[r][j], seen[r].holds(base + threadIdx.x % 8 + 8 * j), lse[r], delta[r]);
        }
        float_combine(out, slopes, k_tile, pitch, head_dim);
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        if (row + i >= queries.count) continue;
        float *to = dq + (queries.token + row + i) * dq_stride + (size_t)head * head_dim;
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 c = 32 * n + 4 * (threadIdx.x % 8) + j;
                if (c < head_dim) to[c] = out[i][n][j];
            }
        }
    }
}

// The piece's sums of dk and dv, for up to 32 keys of a tile from its `first` on.
static __device__ __forceinline__ void backward_kv_tile(
    const KeyGradients &to, const AttentionInputs<float> &in, const AttentionGradients<float> &given,
    const KeyTile &tile, const Visit *visits, u32 first) {
    u32 head_dim = in.head_dim, pitch = head_dim + 4, kv_head = blockIdx.y, group = in.heads / in.kv_heads,
        count = min(FLOAT_ROWS, tile.count - first);
    float *k_tile = (float *)dynamic_shared, *v_tile = k_tile + FLOAT_ROWS * pitch,
          *q_tile = v_tile + FLOAT_ROWS * pitch, *dy_tile = q_tile + FLOAT_COLUMNS * pitch;
    const float *k = in.k + (size_t)kv_head * head_dim, *v = in.v + (size_t)kv_head * head_dim;
    u32 rows[2], tokens[1], row = 2 * (threadIdx.x / 8);
    consecutive_rows(rows, tile.row + first, count);
    copy_rows(k_tile, pitch, k, in.k_stride, rows, head_dim, aligned_rows(k, in.k_stride));
    copy_rows(v_tile, pitch, v, in.v_stride, rows, head_dim, aligned_rows(v, in.v_stride));
    Scoring scoring(in.scale, in.soft_cap);
    FloatVectors dk_sum = {}, dv_sum = {};
    for (u32 i = 0; i < tile.visits; i++) {
        KeyQueries seeing(in.spans[visits[i].span], visits[i].position + first, count, in.window);
        QueryTiles share(seeing, FLOAT_COLUMNS, kv_head * group, group, tile.part);
        Range seen[2] = {
            row < count ? seeing.queries(row, in.window) : Range(0, 0),
            row + 1 < count ? seeing.queries(row + 1, in.window) : Range(0, 0)};
        for (u32 n = share.from; n < share.to; n++) {
            u32 head = share.head(n), base = share.query(n);
            const float *q = in.q + (size_t)head * head_dim, *dy = given.dy + (size_t)head * head_dim;
            bool q_aligned = aligned_rows(q, in.q_stride), dy_aligned = aligned_rows(dy, given.dy_stride);
            consecutive_rows(tokens, seeing.token + base, seeing.to - base);
            copy_rows(q_tile, pitch, q, in.q_stride, tokens, head_dim, q_aligned);
            copy_rows(dy_tile, pitch, dy, given.dy_stride, tokens, head_dim, dy_aligned);
            commit_copies();
            wait_copies<0>();
            __syncthreads();
            FloatScores weights, slopes;
            float_products(weights, k_tile, q_tile, pitch, head_dim);
            scoring.apply(weights);
            float_products(slopes, v_tile, dy_tile, pitch, head_dim);
#pragma unroll
            for (u32 j = 0; j < 2; j++) {
                u32 query = base + threadIdx.x % 8 + 8 * j;
                size_t at = (size_t)(seeing.token + query) * in.heads + head;
                float lse = query < seeing.to ? given.lse[at] : 0,
                      delta = query < seeing.to ? given.delta[at] : 0;
#pragma unroll
                for (u32 r = 0; r < 2; r++)
                    scoring.gradient(weights[r][j], slopes[r][j], seen[r].holds(query), lse, delta);
            }
            float_combine(dv_sum, weights, dy_tile, pitch, head_dim);
            float_combine(dk_sum, slopes, q_tile, pitch, head_dim);
            __syncthreads();
        }
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        if (row + i >= count) continue;
#pragma unroll
        for (u32 n = 0; n < 8; n++) {
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 c = 32 * n + 4 * (threadIdx.x % 8) + j;
                if (c >= head_dim) continue;
                to.put(tile, first + row + i, kv_head * head_dim + c, dk_sum[i][n][j], dv_sum[i][n][j]);
            }
        }
    }
    // Copies of keys that no query attends to may not have arrived yet.
    commit_copies();
    wait_copies<0>();
    __syncthreads();
}
