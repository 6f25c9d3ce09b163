// Gradients of attention, from recomputed scores and the forward pass's log-sum-exps (Dao 2023). First those of
// the queries, then those of keys and values, so that no two blocks add to the same number. With p = exp(score
// − lse) and delta = Σ dy·y: dv = Σ p · dy; dscore = p · (dy·v − delta); dq and dk are sums of dscore · slope ·
// k and · q. The slope is the derivative of the score with respect to q·k.
//
// A tile of keys is attended to by all queries after it, in all spans that contain it, and by all heads of its
// group. Tiles with more than their share of this work are divided into pieces with one block each, and
// `attention_add_parts` adds up their sums. partial[row][0] has dk, and partial[row][1] dv, for all heads of
// keys.

// Number of keys in each tile that is processed for a tile of queries, and of such tiles in shared memory. If
// there are two, one is loaded while the other is processed. With wider heads, two would leave nothing of the
// 99 KiB that a block has on some devices.
template <u32 WIDEST> struct BackwardKeys {
    static const u32 COUNT = WIDEST <= 64 ? 64 : WIDEST <= 128 ? 32 : 16, STAGES = WIDEST <= 128 ? 2 : 1;
};

// The same for the queries in each tile that is processed for a tile of keys.
template <u32 WIDEST> struct BackwardQueries {
    static const u32 COUNT = WIDEST <= 128 ? 32 : 16, STAGES = WIDEST <= 128 ? 2 : 1;
};

template <u32 WIDEST>
static __device__ __forceinline__ void backward_q(
    float *dq, size_t dq_stride, const AttentionInputs<bf16> &in, const AttentionGradients<bf16> &given,
    const Span &span, u32 first) {
    typedef BackwardKeys<WIDEST> Tile;
    const u32 tile_keys = Tile::COUNT, columns = tile_keys / 8;
    const u32 pitch = WIDEST + 8, tile_size = tile_keys * pitch;
    u32 head_dim = in.head_dim, head = blockIdx.y, kv_head = head / (in.heads / in.kv_heads);
    bf16 *q_tile = (bf16 *)dynamic_shared, *dy_tile = q_tile + QUERY_TILE * pitch,
         *k_tiles = dy_tile + QUERY_TILE * pitch, *v_tiles = k_tiles + Tile::STAGES * tile_size;
    Queries queries(span, first, QUERY_TILE, in.window);
    const bf16 *q = in.q + (size_t)head * head_dim, *k = in.k + (size_t)kv_head * head_dim,
               *v = in.v + (size_t)kv_head * head_dim, *dy = given.dy + (size_t)head * head_dim;
    bool k_aligned = aligned_rows(k, in.k_stride), v_aligned = aligned_rows(v, in.v_stride);
    u32 start = queries.from / tile_keys * tile_keys;
    Cursor cursor(span, in.segments, start);
    u32 tokens[QUERY_TILE / ROWS_AT_ONCE], rows[tile_keys / ROWS_AT_ONCE];
    consecutive_rows(tokens, queries.token, queries.count);
    copy_rows(q_tile, pitch, q, in.q_stride, tokens, head_dim, aligned_rows(q, in.q_stride));
    copy_rows(dy_tile, pitch, dy, given.dy_stride, tokens, head_dim, aligned_rows(dy, given.dy_stride));
    auto load = [&](u32 base, u32 stage) {
        key_rows(rows, cursor, base, queries.to);
        copy_rows(k_tiles + stage * tile_size, pitch, k, in.k_stride, rows, head_dim, k_aligned);
        copy_rows(v_tiles + stage * tile_size, pitch, v, in.v_stride, rows, head_dim, v_aligned);
        commit_copies();
    };
    load(start, 0);

    Scoring scoring(in.scale, in.soft_cap);
    u32 warp_row = threadIdx.x / WARP * 16, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    Range seen[2] = {queries.keys(warp_row + g, in.window), queries.keys(warp_row + g + 8, in.window)};
    float lse[2] = {}, delta[2] = {};
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        u32 row = warp_row + g + 8 * i;
        if (row >= queries.count) continue;
        size_t at = (size_t)(queries.token + row) * in.heads + head;
        lse[i] = given.lse[at], delta[i] = given.delta[at];
    }
    float out[WIDEST / 8][4] = {};
    u32 stage = 0;
    for (u32 base = start; base < queries.to; base += tile_keys) {
        wait_copies<0>();
        __syncthreads();
        const bf16 *k_tile = k_tiles + stage * tile_size, *v_tile = v_tiles + stage * tile_size;
        u32 next = base + tile_keys;
        // All threads have finished with the other tile.
        if (Tile::STAGES > 1 && next < queries.to) load(next, stage = 1 - stage);
        float weights[columns][4], slopes[columns][4];
        row_products<WIDEST>(weights, q_tile + warp_row * pitch, k_tile, head_dim);
        row_products<WIDEST>(slopes, dy_tile + warp_row * pitch, v_tile, head_dim);
        scoring.apply(weights);
#pragma unroll
        for (u32 j = 0; j < columns; j++) {
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                bool is_seen = seen[e / 2].holds(base + 8 * j + 2 * t + e % 2);
                scoring.gradient(weights[j][e], slopes[j][e], is_seen, lse[e / 2], delta[e / 2]);
            }
        }
        add_weighted<pitch>(out, slopes, k_tile, head_dim);
        if (Tile::STAGES > 1) continue;
        __syncthreads();
        if (next < queries.to) load(next, 0);
    }
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        u32 row = warp_row + g + 8 * i;
        if (row >= queries.count) continue;
        float *to = dq + (queries.token + row) * dq_stride + (size_t)head * head_dim + 2 * t;
#pragma unroll
        for (u32 j = 0; j < WIDEST / 8; j++) {
            if (8 * j < head_dim) to[8 * j] = out[j][2 * i], to[8 * j + 1] = out[j][2 * i + 1];
        }
    }
}

template <u32 WIDEST>
static __device__ __forceinline__ void backward_q(
    float *dq, size_t dq_stride, const AttentionInputs<float> &in, const AttentionGradients<float> &given,
    const Span &span, u32 first) {
    for (u32 part = first; part < min(first + QUERY_TILE, span.q_len); part += FLOAT_ROWS) {
        backward_q_tile(dq, dq_stride, in, given, span, part);
    }
}

// Writes dq. Grid (tiles, heads) as in the forward pass, 128 threads.
//
// Dynamic shared memory: in bf16 2 · (64 + COUNT · STAGES of BackwardKeys) · (WIDEST + 8) numbers, in float
// 2 · (32 + 16) · (head_dim + 4).
template <class T, u32 WIDEST = 256>
__global__ void __launch_bounds__(TILE_THREADS) attention_backward_q(
    float *dq, size_t dq_stride, const T *dy, size_t dy_stride, const float *lse, const float *delta,
    const T *q, size_t q_stride, const T *k, size_t k_stride, const T *v, size_t v_stride, const Span *spans,
    const Segment *segments, const u32 *tiles, u32 heads, u32 kv_heads, u32 head_dim, float scale,
    float soft_cap, u32 window) {
    AttentionInputs<T> in = {q,        q_stride, k,        k_stride, v,     v_stride, spans,
                             segments, heads,    kv_heads, head_dim, scale, soft_cap, window};
    AttentionGradients<T> given = {dy, dy_stride, lse, delta};
    Span span = spans[tiles[2 * blockIdx.x]];
    u32 first = tiles[2 * blockIdx.x + 1];
    if (first < span.q_len) backward_q<WIDEST>(dq, dq_stride, in, given, span, first);
}

// A warp has 16 keys, as the rows of its products. For heads wider than 128, everything is repeated for each
// 128 numbers of the gradients, since there are not enough registers.
template <u32 WIDEST>
static __device__ __forceinline__ void backward_kv(
    const KeyGradients &to, const AttentionInputs<bf16> &in, const AttentionGradients<bf16> &given,
    const KeyTile &tile, const Visit *visits) {
    typedef BackwardQueries<WIDEST> Tile;
    const u32 tile_queries = Tile::COUNT, columns = tile_queries / 8, part = WIDEST < 128 ? WIDEST : 128;
    __shared__ float lse[Tile::STAGES][tile_queries], delta[Tile::STAGES][tile_queries];
    const u32 pitch = WIDEST + 8, tile_size = tile_queries * pitch;
    u32 head_dim = in.head_dim, kv_head = blockIdx.y, group = in.heads / in.kv_heads;
    bf16 *k_tile = (bf16 *)dynamic_shared, *v_tile = k_tile + KEY_TILE * pitch,
         *q_tiles = v_tile + KEY_TILE * pitch, *dy_tiles = q_tiles + Tile::STAGES * tile_size;
    const bf16 *k = in.k + (size_t)kv_head * head_dim, *v = in.v + (size_t)kv_head * head_dim;
    u32 rows[KEY_TILE / ROWS_AT_ONCE];
    consecutive_rows(rows, tile.row, tile.count);
    copy_rows(k_tile, pitch, k, in.k_stride, rows, head_dim, aligned_rows(k, in.k_stride));
    copy_rows(v_tile, pitch, v, in.v_stride, rows, head_dim, aligned_rows(v, in.v_stride));
    // A head's width is a multiple of 16, so rows are aligned alike for all heads.
    bool q_aligned = aligned_rows(in.q, in.q_stride), dy_aligned = aligned_rows(given.dy, given.dy_stride);
    Scoring scoring(in.scale, in.soft_cap);
    u32 warp_row = threadIdx.x / WARP * 16, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    // Number of tiles of queries that have been processed.
    u32 done = 0;
    for (u32 column = 0; column < head_dim; column += part) {
        u32 width = min(part, head_dim - column);
        float dk_sum[part / 8][4] = {}, dv_sum[part / 8][4] = {};
        for (u32 i = 0; i < tile.visits; i++) {
            KeyQueries seeing(in.spans[visits[i].span], visits[i].position, tile.count, in.window);
            QueryTiles share(seeing, tile_queries, kv_head * group, group, tile.part);
            u32 row = warp_row + g;
            Range seen[2] = {
                row < tile.count ? seeing.queries(row, in.window) : Range(0, 0),
                row + 8 < tile.count ? seeing.queries(row + 8, in.window) : Range(0, 0)};
            // Starts to load the `n`-th tile of queries, and what belongs to them, for the `turn`-th turn.
            auto load = [&](u32 n, u32 turn) {
                u32 stage = turn % Tile::STAGES, head = share.head(n), base = share.query(n);
                u32 tokens[tile_queries / ROWS_AT_ONCE];
                consecutive_rows(tokens, seeing.token + base, seeing.to - base);
                copy_rows(q_tiles + stage * tile_size, pitch, in.q + (size_t)head * head_dim, in.q_stride,
                          tokens, head_dim, q_aligned);
                copy_rows(dy_tiles + stage * tile_size, pitch, given.dy + (size_t)head * head_dim,
                          given.dy_stride, tokens, head_dim, dy_aligned);
                if (threadIdx.x < tile_queries) {
                    u32 query = base + threadIdx.x;
                    size_t at = (size_t)(seeing.token + query) * in.heads + head;
                    float *lse_to = &lse[stage][threadIdx.x], *delta_to = &delta[stage][threadIdx.x];
                    if (query < seeing.to)
                        copy_word_async(lse_to, given.lse + at), copy_word_async(delta_to, given.delta + at);
                    else
                        *lse_to = *delta_to = 0;
                }
                commit_copies();
            };
            if (share.from < share.to) load(share.from, done);
            for (u32 n = share.from; n < share.to; n++, done++) {
                wait_copies<0>();
                __syncthreads();
                // All threads have finished with the other tile.
                if (Tile::STAGES > 1 && n + 1 < share.to) load(n + 1, done + 1);
                u32 stage = done % Tile::STAGES, base = share.query(n);
                const bf16 *q_tile = q_tiles + stage * tile_size, *dy_tile = dy_tiles + stage * tile_size;
                float weights[columns][4], slopes[columns][4];
                row_products<WIDEST>(weights, k_tile + warp_row * pitch, q_tile, head_dim);
                row_products<WIDEST>(slopes, v_tile + warp_row * pitch, dy_tile, head_dim);
                scoring.apply(weights);
#pragma unroll
                for (u32 j = 0; j < columns; j++) {
#pragma unroll
                    for (u32 e = 0; e < 4; e++) {
                        u32 query = 8 * j + 2 * t + e % 2;
                        scoring.gradient(
                            weights[j][e], slopes[j][e], seen[e / 2].holds(base + query), lse[stage][query],
                            delta[stage][query]);
                    }
                }
                add_weighted<pitch>(dv_sum, weights, dy_tile + column, width);
                add_weighted<pitch>(dk_sum, slopes, q_tile + column, width);
                if (Tile::STAGES > 1) continue;
                __syncthreads();
                if (n + 1 < share.to) load(n + 1, done + 1);
            }
        }
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            u32 row = warp_row + g + 8 * i;
            if (row >= tile.count) continue;
            u32 c = kv_head * head_dim + column + 2 * t;
#pragma unroll
            for (u32 j = 0; j < part / 8; j++) {
                if (8 * j >= width) break;
                for (u32 e = 0; e < 2; e++)
                    to.put(tile, row, c + 8 * j + e, dk_sum[j][2 * i + e], dv_sum[j][2 * i + e]);
            }
        }
    }
    // If no query attends to a key of the tile, nothing has waited for the copies.
    commit_copies();
    wait_copies<0>();
}

template <u32 WIDEST>
static __device__ __forceinline__ void backward_kv(
    const KeyGradients &to, const AttentionInputs<float> &in, const AttentionGradients<float> &given,
    const KeyTile &tile, const Visit *visits) {
    for (u32 first = 0; first < tile.count; first += FLOAT_ROWS) {
        backward_kv_tile(to, in, given, tile, visits, first);
    }
}

// Adds to dk and dv, or writes to `partial` if the tile has several pieces: over the piece's visits in their
// order, for each visit over the heads, then over the queries. Grid (pieces of key tiles, kv_heads), 128
// threads.
//
// Dynamic shared memory: in bf16 2 · (64 + COUNT · STAGES of BackwardQueries) · (WIDEST + 8) numbers, in float
// 2 · (32 + 16) · (head_dim + 4).
template <class T, u32 WIDEST = 256>
__global__ void __launch_bounds__(TILE_THREADS, WIDEST <= 64 ? 3 : 2) attention_backward_kv(
    float *dk, size_t dk_stride, float *dv, size_t dv_stride, float *partial, const T *dy, size_t dy_stride,
    const float *lse, const float *delta, const T *q, size_t q_stride, const T *k, size_t k_stride,
    const T *v, size_t v_stride, const Span *spans, const KeyTile *key_tiles, const Visit *visits, u32 heads,
    u32 kv_heads, u32 head_dim, float scale, float soft_cap, u32 window) {
    AttentionInputs<T> in = {q,       q_stride, k,        k_stride, v,     v_stride, spans,
                             nullptr, heads,    kv_heads, head_dim, scale, soft_cap, window};
    AttentionGradients<T> given = {dy, dy_stride, lse, delta};
    // The tiles that the most queries attend to usually come first, and blocks start in this order.
    KeyTile tile = key_tiles[blockIdx.x];
    KeyGradients to = {dk, dk_stride, dv, dv_stride, partial, kv_heads * head_dim};
    if (tile.count > 0) backward_kv<WIDEST>(to, in, given, tile, visits + tile.visit);
}

// Adds the sums of a tile's pieces to dk and dv, in order. One warp for each of a tile's rows, `width` numbers
// of dk and of dv: grid (pieces of key tiles, 64 / 4), 128 threads. The first piece's blocks do it.
__global__ void attention_add_parts(
    float *dk, size_t dk_stride, float *dv, size_t dv_stride, const float *partial, const KeyTile *key_tiles,
    u32 width) {
    KeyTile tile = key_tiles[blockIdx.x];
    u32 i = blockIdx.y * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (i >= tile.count || tile.pieces <= 1) return;
    size_t row = tile.row + i;
    dk += row * dk_stride;
    dv += row * dv_stride;
    partial += (size_t)(tile.partial + i) * 2 * width;
    for (u32 c = 4 * (threadIdx.x % WARP); c < 2 * width; c += 4 * WARP) {
        float *to = c < width ? dk + c : dv + (c - width);
        float sum[4] = {}, v[4];
#pragma unroll 4
        for (u32 piece = 0; piece < tile.pieces; piece++) {
            load_pack(v, partial + (size_t)piece * tile.count * 2 * width + c);
            for (u32 j = 0; j < 4; j++) sum[j] += v[j];
        }
        load4(v, to, 4, packable(to));
        for (u32 j = 0; j < 4; j++) v[j] += sum[j];
        store4(to, v, 4, packable(to));
    }
}
