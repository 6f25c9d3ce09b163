// Attention of single queries (Flash-Decoding, Dao et al. 2023). The keys that a query attends to are divided
// into `splits` parts with one block each, and `attention_combine` adds up their results. A block computes all
// query heads of one key head, at most 16, so that a key is read once for all of them.
//
// partial[span][head][split] is { m, l, sum[head_dim] }: the largest score (log₂), Σ 2^(score − m) and Σ
// 2^(score − m) · v. If the part is empty, l is 0, and m and sum are not written.

static const u32 MOST_GROUP = 16, DECODE_KEYS = 32, DECODE_WARPS = TILE_THREADS / WARP;

// The keys of a block's part.
struct Share {
    u32 from, to;

    __device__ __forceinline__ Share(const Span &span, u32 window, u32 split, u32 splits) {
        u32 start = window && span.keys > window ? span.keys - window : 0;
        u32 length = (span.keys - start + splits - 1) / splits;
        length = (length + DECODE_KEYS - 1) / DECODE_KEYS * DECODE_KEYS;
        from = start + split * length;
        to = min(from + length, span.keys);
        if (span.q_len == 0 || from >= to) from = to = 0;
    }
};

// Eight numbers.
static __device__ __forceinline__ uint4 load8(const bf16 *p, bool aligned) {
    if (aligned) return *(const uint4 *)p;
    u32 v[4];
#pragma unroll
    for (u32 i = 0; i < 4; i++) v[i] = p[2 * i].bits | (u32)p[2 * i + 1].bits << 16;
    return {v[0], v[1], v[2], v[3]};
}

// On tensor cores: the group's heads are the 16 rows of a product. Each warp processes every fourth group of
// 32 keys. Keys and values go from global memory directly to fragments. The order of a dot product's terms is
// free, so lane 4g + t takes, of 32 columns of a key, those from 8t on, and, of 64 columns of a value, those
// from 8g on.
template <u32 WIDEST>
static __device__ __forceinline__ void decode(
    float *partial, size_t partial_stride, const AttentionInputs<bf16> &in, const Span &span,
    const Share &share) {
    static_assert(WIDEST % 32 == 0, "fragments of queries are read 32 numbers at a time");
    const u32 parts = (WIDEST + 63) / 64;
    __shared__ __align__(16) bf16 queries[MOST_GROUP][WIDEST + 8];
    // Column 64p + 8k + j is in place 64p + 8j + k, so that half a warp's pairs lie in different banks.
    __shared__ __align__(8) float sums[MOST_GROUP][64 * parts + 8];
    __shared__ float largest_of[DECODE_WARPS][MOST_GROUP], total_of[DECODE_WARPS][MOST_GROUP];
    u32 head_dim = in.head_dim, group = in.heads / in.kv_heads;
    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const bf16 *q = in.q + span.q_start * in.q_stride + (size_t)blockIdx.y * group * head_dim;
    for (u32 i = threadIdx.x; i < MOST_GROUP * WIDEST; i += TILE_THREADS) {
        u32 head = i / WIDEST, c = i % WIDEST;
        queries[head][c] = head < group && c < head_dim ? q[head * head_dim + c] : bf16{0};
    }
    __syncthreads();

    const bf16 *k = in.k + (size_t)blockIdx.y * head_dim, *v = in.v + (size_t)blockIdx.y * head_dim;
    bool k_aligned = aligned_rows(k, in.k_stride), v_aligned = aligned_rows(v, in.v_stride);
    Scoring scoring(in.scale, in.soft_cap);
    Cursor cursor(span, in.segments, share.from);
    // For the rows g and g + 8.
    float largest[2] = {minus_infinity(), minus_infinity()}, total[2] = {};
    // For tile j of part p: column 64p + 8(2t) + j in [0] and [2], column 64p + 8(2t + 1) + j in [1] and [3].
    float out[parts][8][4] = {};
    for (u32 base = share.from + warp * DECODE_KEYS; base < share.to; base += DECODE_WARPS * DECODE_KEYS) {
        u32 row = base + lane < share.to ? cursor.row(base + lane) : NO_ROW;
        float scores[4][4] = {};
#pragma unroll
        for (u32 p = 0; p < parts; p++) {
            if (64 * p >= head_dim) break;
            uint4 keys[4][2];
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
                u32 from = __shfl_sync(WHOLE_WARP, row, 8 * j + g);
#pragma unroll
                for (u32 h = 0; h < 2; h++) {
                    u32 c = 64 * p + 32 * h + 8 * t;
                    keys[j][h] = {0, 0, 0, 0};
                    if (from != NO_ROW && c < head_dim)
                        keys[j][h] = load8(k + from * in.k_stride + c, k_aligned);
                }
            }
#pragma unroll
            for (u32 h = 0; h < 2; h++) {
                uint4 low = {0, 0, 0, 0}, high = {0, 0, 0, 0};
                if (64 * p + 32 * h < WIDEST) {
                    low = *(const uint4 *)&queries[g][64 * p + 32 * h + 8 * t];
                    high = *(const uint4 *)&queries[g + 8][64 * p + 32 * h + 8 * t];
                }
#pragma unroll
                for (u32 j = 0; j < 4; j++) {
                    mma(scores[j], {low.x, high.x, low.y, high.y}, {keys[j][h].x, keys[j][h].y});
                    mma(scores[j], {low.z, high.z, low.w, high.w}, {keys[j][h].z, keys[j][h].w});
                }
            }
        }
        scoring.apply(scores);
#pragma unroll
        for (u32 i = 0; i < 2; i++) {
            float most = largest[i];
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
#pragma unroll
                for (u32 e = 2 * i; e < 2 * i + 2; e++) {
                    scores[j][e] = base + 8 * j + 2 * t + e % 2 < share.to ? scores[j][e] : minus_infinity();
                    most = fmaxf(most, scores[j][e]);
                }
            }
            most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, 1));
            most = fmaxf(most, __shfl_xor_sync(WHOLE_WARP, most, 2));
            float fade = exp2f(largest[i] - most);
            largest[i] = most;
            total[i] *= fade;
#pragma unroll
            for (u32 j = 0; j < 4; j++) {
#pragma unroll
                for (u32 e = 2 * i; e < 2 * i + 2; e++) {
                    scores[j][e] = exp2f(scores[j][e] - most);
                    total[i] += scores[j][e];
                }
            }
#pragma unroll
            for (u32 p = 0; p < parts; p++) {
#pragma unroll
                for (u32 j = 0; j < 8; j++) out[p][j][2 * i] *= fade, out[p][j][2 * i + 1] *= fade;
            }
        }
#pragma unroll
        for (u32 p = 0; p < parts; p++) {
            if (64 * p >= head_dim) break;
            uint4 values[2][4];
            u32 c = 64 * p + 8 * g;
#pragma unroll
            for (u32 i = 0; i < 8; i++) {
                u32 from = __shfl_sync(WHOLE_WARP, row, 8 * (i / 2) + 2 * t + i % 2);
                values[i / 4][i % 4] = {0, 0, 0, 0};
                if (from != NO_ROW && c < head_dim)
                    values[i / 4][i % 4] = load8(v + from * in.v_stride + c, v_aligned);
            }
#pragma unroll
            for (u32 s = 0; s < 2; s++) {
                const float (&a)[4] = scores[2 * s], (&b)[4] = scores[2 * s + 1];
                u32 weights[4] = {
                    to_bf16_pair(a[0], a[1]), to_bf16_pair(a[2], a[3]), to_bf16_pair(b[0], b[1]),
                    to_bf16_pair(b[2], b[3])};
                const uint4(&four)[4] = values[s];
#pragma unroll
                for (u32 pair = 0; pair < 4; pair++) {
                    u32 words[4];
#pragma unroll
                    for (u32 i = 0; i < 4; i++)
                        words[i] = pair == 0   ? four[i].x
                                   : pair == 1 ? four[i].y
                                   : pair == 2 ? four[i].z
                                               : four[i].w;
                    mma(out[p][2 * pair], weights,
                        {lower_halves(words[0], words[1]), lower_halves(words[2], words[3])});
                    mma(out[p][2 * pair + 1], weights,
                        {upper_halves(words[0], words[1]), upper_halves(words[2], words[3])});
                }
            }
        }
    }

    // The four warps' results, added in order.
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        total[i] += __shfl_xor_sync(WHOLE_WARP, total[i], 1);
        total[i] += __shfl_xor_sync(WHOLE_WARP, total[i], 2);
        if (t == 0) largest_of[warp][g + 8 * i] = largest[i], total_of[warp][g + 8 * i] = total[i];
    }
    __syncthreads();
    float factor[2];
#pragma unroll
    for (u32 i = 0; i < 2; i++) {
        // The first warp has keys.
        float most = largest_of[0][g + 8 * i];
        for (u32 w = 1; w < DECODE_WARPS; w++) most = fmaxf(most, largest_of[w][g + 8 * i]);
        factor[i] = exp2f(largest[i] - most);
    }
    for (u32 w = 0; w < DECODE_WARPS; w++) {
        if (warp == w) {
#pragma unroll
            for (u32 p = 0; p < parts; p++) {
#pragma unroll
                for (u32 j = 0; j < 8; j++) {
#pragma unroll
                    for (u32 i = 0; i < 2; i++) {
                        float2 &to = *(float2 *)&sums[g + 8 * i][64 * p + 8 * j + 2 * t];
                        float x = out[p][j][2 * i] * factor[i], y = out[p][j][2 * i + 1] * factor[i];
                        to = w == 0 ? float2{x, y} : float2{to.x + x, to.y + y};
                    }
                }
            }
        }
        __syncthreads();
    }
    for (u32 head = warp; head < group; head += DECODE_WARPS) {
        float *to = partial + head * partial_stride;
        for (u32 c = lane; c < head_dim; c += WARP) to[2 + c] = sums[head][c / 64 * 64 + c % 8 * 8 + c % 64 / 8];
        if (lane == 0) {
            float most = largest_of[0][head], sum = 0;
            for (u32 w = 1; w < DECODE_WARPS; w++) most = fmaxf(most, largest_of[w][head]);
            for (u32 w = 0; w < DECODE_WARPS; w++)
                sum += total_of[w][head] * exp2f(largest_of[w][head] - most);
            to[0] = most, to[1] = sum;
        }
    }
}

// In float: 16 keys at a time in shared memory.
template <u32 WIDEST>
static __device__ __forceinline__ void decode(
    float *partial, size_t partial_stride, const AttentionInputs<float> &in, const Span &span,
    const Share &share) {
    const u32 keys = ROWS_AT_ONCE, pitch = WIDEST + 4, sums = MOST_GROUP * WIDEST / TILE_THREADS;
    __shared__ __align__(16) float tile[keys * pitch];
    __shared__ float queries[MOST_GROUP][WIDEST], scores[MOST_GROUP][keys], fades[MOST_GROUP];
    u32 head_dim = in.head_dim, group = in.heads / in.kv_heads;
    const float *q = in.q + span.q_start * in.q_stride + (size_t)blockIdx.y * group * head_dim;
    for (u32 i = threadIdx.x; i < group * head_dim; i += TILE_THREADS)
        queries[i / head_dim][i % head_dim] = q[i];
    const float *k = in.k + (size_t)blockIdx.y * head_dim, *v = in.v + (size_t)blockIdx.y * head_dim;
    bool k_aligned = aligned_rows(k, in.k_stride), v_aligned = aligned_rows(v, in.v_stride);
    Scoring scoring(in.scale, in.soft_cap);
    Cursor cursor(span, in.segments, share.from);
    // For the head threadIdx.x.
    float largest = minus_infinity(), total = 0;
    // For the numbers threadIdx.x + 128 i of the group's heads side by side.
    float out[sums] = {};
    for (u32 base = share.from; base < share.to; base += keys) {
        u32 rows[1];
        key_rows(rows, cursor, base, share.to);
        copy_rows(tile, pitch, k, in.k_stride, rows, head_dim, k_aligned);
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        for (u32 i = threadIdx.x; i < group * keys; i += TILE_THREADS) {
            u32 head = i / keys, key = i % keys;
            float score[1][1] = {};
            for (u32 c = 0; c < head_dim; c++)
                score[0][0] = fmaf(queries[head][c], tile[key * pitch + c], score[0][0]);
            scoring.apply(score);
            scores[head][key] = base + key < share.to ? score[0][0] : minus_infinity();
        }
        __syncthreads();
        copy_rows(tile, pitch, v, in.v_stride, rows, head_dim, v_aligned);
        commit_copies();
        if (threadIdx.x < group) {
            float most = largest;
            for (u32 key = 0; key < keys; key++) most = fmaxf(most, scores[threadIdx.x][key]);
            float fade = exp2f(largest - most);
            largest = most;
            total *= fade;
            for (u32 key = 0; key < keys; key++) {
                float weight = exp2f(scores[threadIdx.x][key] - most);
                scores[threadIdx.x][key] = weight;
                total += weight;
            }
            fades[threadIdx.x] = fade;
        }
        wait_copies<0>();
        __syncthreads();
#pragma unroll
        for (u32 i = 0; i < sums; i++) {
            u32 n = threadIdx.x + i * TILE_THREADS;
            if (n >= group * head_dim) break;
            u32 head = n / head_dim, c = n % head_dim;
            float sum = out[i] * fades[head];
            for (u32 key = 0; key < keys; key++) sum = fmaf(scores[head][key], tile[key * pitch + c], sum);
            out[i] = sum;
        }
        __syncthreads();
    }
#pragma unroll
    for (u32 i = 0; i < sums; i++) {
        u32 n = threadIdx.x + i * TILE_THREADS;
        if (n < group * head_dim) partial[n / head_dim * partial_stride + 2 + n % head_dim] = out[i];
    }
    if (threadIdx.x < group) {
        partial[threadIdx.x * partial_stride] = largest;
        partial[threadIdx.x * partial_stride + 1] = total;
    }
}

// For spans of one query, or of none (padding). Grid (spans, kv_heads, splits), 128 threads. Knowing that a
// head is at most WIDEST wide saves registers.
template <class T, u32 WIDEST = 256>
__global__ void __launch_bounds__(TILE_THREADS) attention_decode(
    float *partial, const T *q, size_t q_stride, const T *k, size_t k_stride, const T *v, size_t v_stride,
    const Span *spans, const Segment *segments, u32 heads, u32 kv_heads, u32 head_dim, float scale,
    float soft_cap, u32 window, u32 splits) {
    AttentionInputs<T> in = {q,        q_stride, k,        k_stride, v,     v_stride, spans,
                             segments, heads,    kv_heads, head_dim, scale, soft_cap, window};
    Span span = spans[blockIdx.x];
    Share share(span, window, blockIdx.z, splits);
    u32 group = heads / kv_heads;
    // Distance from a head's split to the next head's.
    size_t stride = (size_t)splits * (head_dim + 2);
    partial +=
        ((size_t)blockIdx.x * heads + blockIdx.y * group) * stride + blockIdx.z * (size_t)(head_dim + 2);
    if (share.from == share.to) {
        if (threadIdx.x < group) partial[threadIdx.x * stride + 1] = 0;
        return;
    }
    decode<WIDEST>(partial, stride, in, span, share);
}

// Computes row q_start of y, and lse[q_start · heads + head], from the splits' results. Grid (spans, heads),
// 64 threads.
template <class T>
__global__ void attention_combine(
    T *y, size_t y_stride, float *lse, const float *partial, const Span *spans, u32 heads, u32 head_dim,
    u32 splits) {
    Span span = spans[blockIdx.x];
    if (span.q_len == 0) return;
    u32 head = blockIdx.y;
    size_t stride = head_dim + 2;
    partial += ((size_t)blockIdx.x * heads + head) * splits * stride;
    float most = minus_infinity(), total = 0;
    for (u32 s = 0; s < splits; s++) {
        if (partial[s * stride + 1] > 0) most = fmaxf(most, partial[s * stride]);
    }
    for (u32 s = 0; s < splits; s++) {
        float part = partial[s * stride + 1];
        if (part > 0) total = fmaf(part, exp2f(partial[s * stride] - most), total);
    }
    y += span.q_start * y_stride + (size_t)head * head_dim;
    for (u32 c = threadIdx.x; c < head_dim; c += blockDim.x) {
        float sum = 0;
        for (u32 s = 0; s < splits; s++) {
            if (partial[s * stride + 1] > 0)
                sum = fmaf(partial[s * stride + 2 + c], exp2f(partial[s * stride] - most), sum);
        }
        put(y[c], sum / total);
    }
    if (threadIdx.x == 0) lse[(size_t)span.q_start * heads + head] = (most + log2f(total)) * LN_2;
}
