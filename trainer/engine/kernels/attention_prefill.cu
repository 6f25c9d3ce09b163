// Attention of many queries (FlashAttention-2, Dao 2023). A block has a tile of 64 queries of one head, and
// reads the keys that they attend to in tiles. Key tiles begin at multiples of their length, counted from the
// sequence's beginning, so that a query's result does not depend on the tile that contains it.

// Number of keys of a tile.
template <u32 WIDEST> struct PrefillKeys {
    static const u32 COUNT = WIDEST <= 128 ? 64 : 32;
};

template <u32 WIDEST>
static __device__ __forceinline__ void
prefill(bf16 *y, size_t y_stride, float *lse, const AttentionInputs<bf16> &in, const Span &span, u32 first) {
    const u32 tile_keys = PrefillKeys<WIDEST>::COUNT, columns = tile_keys / 8;
    const u32 pitch = WIDEST + 8;
    u32 head_dim = in.head_dim, head = blockIdx.y, kv_head = head / (in.heads / in.kv_heads);
    bf16 *q_tile = (bf16 *)dynamic_shared, *k_tile = q_tile + QUERY_TILE * pitch,
         *v_tile = k_tile + tile_keys * pitch;
    Queries queries(span, first, QUERY_TILE, in.window);
    const bf16 *q = in.q + (size_t)head * head_dim, *k = in.k + (size_t)kv_head * head_dim,
               *v = in.v + (size_t)kv_head * head_dim;
    bool k_aligned = aligned_rows(k, in.k_stride), v_aligned = aligned_rows(v, in.v_stride);
    u32 start = queries.from / tile_keys * tile_keys;
    Cursor cursor(span, in.segments, start);
    u32 tokens[QUERY_TILE / ROWS_AT_ONCE], rows[tile_keys / ROWS_AT_ONCE];
    consecutive_rows(tokens, queries.token, queries.count);
    copy_rows(q_tile, pitch, q, in.q_stride, tokens, head_dim, aligned_rows(q, in.q_stride));
    key_rows(rows, cursor, start, queries.to);
    copy_rows(k_tile, pitch, k, in.k_stride, rows, head_dim, k_aligned);
    commit_copies();

    Scoring scoring(in.scale, in.soft_cap);
    // This lane's rows of sums are the warp's g and g + 8; its columns are 8j + 2t and 8j + 2t + 1.
    u32 warp_row = threadIdx.x / WARP * 16, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    Range seen[2] = {queries.keys(warp_row + g, in.window), queries.keys(warp_row + g + 8, in.window)};
    float largest[2] = {minus_infinity(), minus_infinity()}, total[2] = {};
    float out[WIDEST / 8][4] = {};
    for (u32 base = start; base < queries.to; base += tile_keys) {
        wait_copies<0>();
        __syncthreads();
        // Values are loaded while scores are computed, and the next keys while values are added.
        copy_rows(v_tile, pitch, v, in.v_stride, rows, head_dim, v_aligned);
        commit_copies();
        float scores[columns][4];
        row_products<WIDEST>(scores, q_tile + warp_row * pitch, k_tile, head_dim);
        scoring.apply(scores);
        wait_copies<0>();
        __syncthreads();
        if (base + tile_keys < queries.to) {
            key_rows(rows, cursor, base + tile_keys, queries.to);
            copy_rows(k_tile, pitch, k, in.k_stride, rows, head_dim, k_aligned);
        }
        commit_copies();
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            float most = largest[i];
#pragma unroll
            for (u32 j = 0; j < columns; j++) {
#pragma unroll
                for (u32 e = 2 * i; e < 2 * i + 2; e++) {
                    scores[j][e] =
                        seen[i].holds(base + 8 * j + 2 * t + e % 2) ? scores[j][e] : minus_infinity();
                    most = fmaxf(most, scores[j][e]);
                }
            }
            most = quad_max(most);
            // While no key has been attended to, all weights are 2^-∞.
            float shift = most == minus_infinity() ? 0 : most, fade = exp2f(largest[i] - shift);
            largest[i] = most;
            total[i] *= fade;
#pragma unroll
            for (u32 j = 0; j < columns; j++) {
#pragma unroll
                for (u32 e = 2 * i; e < 2 * i + 2; e++) {
                    scores[j][e] = exp2f(scores[j][e] - shift);
                    total[i] += scores[j][e];
                }
            }
#pragma unroll
            for (u32 j = 0; j < WIDEST / 8; j++) out[j][2 * i] *= fade, out[j][2 * i + 1] *= fade;
        }
        add_weighted<pitch>(out, scores, v_tile, head_dim);
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        float sum = quad_sum(total[i]);
        u32 row = warp_row + g + 8 * i;
        if (row >= queries.count) continue;
        size_t token = queries.token + row;
        bf16 *to = y + token * y_stride + (size_t)head * head_dim + 2 * t;
        bool aligned = (size_t)to % 4 == 0;
        float inverse = 1 / sum;
#pragma unroll
        for (u32 j = 0; j < WIDEST / 8; j++) {
            if (8 * j >= head_dim) break;
            u32 pair = to_bf16_pair(out[j][2 * i] * inverse, out[j][2 * i + 1] * inverse);
            if (aligned)
                *(u32 *)(to + 8 * j) = pair;
            else
                to[8 * j] = bf16{(unsigned short)pair}, to[8 * j + 1] = bf16{(unsigned short)(pair >> 16)};
        }
        if (t == 0) lse[token * in.heads + head] = (largest[i] + log2f(sum)) * LN_2;
    }
}

template <u32 WIDEST>
static __device__ __forceinline__ void prefill(
    float *y, size_t y_stride, float *lse, const AttentionInputs<float> &in, const Span &span, u32 first) {
    for (u32 part = first; part < min(first + QUERY_TILE, span.q_len); part += FLOAT_ROWS) {
        forward_tile(y, y_stride, lse, in, span, part);
    }
}

// `tiles` contains pairs of a span and its tile's first query. Grid (tiles, heads), 128 threads. Knowing that
// a head is at most WIDEST wide saves registers.
//
// Dynamic shared memory: in bf16 (64 + 2 · PrefillKeys) · (WIDEST + 8) numbers, in float (32 + 2 · 16) ·
// (head_dim + 4).
template <class T, u32 WIDEST = 256>
__global__ void __launch_bounds__(TILE_THREADS) attention_prefill(
    T *y, size_t y_stride, float *lse, const T *q, size_t q_stride, const T *k, size_t k_stride, const T *v,
    size_t v_stride, const Span *spans, const Segment *segments, const u32 *tiles, u32 heads, u32 kv_heads,
    u32 head_dim, float scale, float soft_cap, u32 window) {
    AttentionInputs<T> in = {q,        q_stride, k,        k_stride, v,     v_stride, spans,
                             segments, heads,    kv_heads, head_dim, scale, soft_cap, window};
    Span span = spans[tiles[2 * blockIdx.x]];
    u32 first = tiles[2 * blockIdx.x + 1];
    if (first < span.q_len) prefill<WIDEST>(y, y_stride, lse, in, span, first);
}
