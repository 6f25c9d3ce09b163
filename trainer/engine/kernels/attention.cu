// Definitions that attention's kernels share. Query j of a span is at position keys − q_len + j and attends
// to the keys up to that position, or to the last `window` of them (0: all). Query head h reads key head h /
// (heads / kv_heads). A score is scale · q·k, or soft_cap · tanh(scale · q·k / soft_cap) if soft_cap > 0.
// Heads are at most 256 wide, and a multiple of 16.
//
// Scores are in units of log₂ (times 1 / ln 2), since exp2f is the device's exponential. Log-sum-exps that a
// kernel writes are natural.

static const float LOG2_E = 1.4426950408889634f, LN_2 = 0.6931471805599453f;

// Number of threads of the tile kernels, and of those that copy one row together.
static const u32 TILE_THREADS = 128, ROW_THREADS = 8, ROWS_AT_ONCE = TILE_THREADS / ROW_THREADS;

// Number of queries of a tile of `tiles`, and the maximum number of keys of a KeyTile.
static const u32 QUERY_TILE = 64, KEY_TILE = 64;

template <class T> struct AttentionInputs {
    const T *q;
    size_t q_stride;
    const T *k;
    size_t k_stride;
    const T *v;
    size_t v_stride;
    const Span *spans;
    const Segment *segments;
    u32 heads, kv_heads, head_dim;
    float scale, soft_cap;
    u32 window;
};

// Inputs of the backward pass: the gradient of the result, and the numbers of `attention_delta`.
template <class T> struct AttentionGradients {
    const T *dy;
    size_t dy_stride;
    const float *lse, *delta;
};

// One of `count` parts into which a block's work is divided.
struct Part {
    u32 number, count;
};

// `count` consecutive rows of the store, and the `visits` visits from `visit` on: spans that contain the rows,
// and a part of their queries. If the tile has several such pieces, their sums are first in `partial`, from row
// number `partial` on; the first piece has their number, and the others have 0.
struct KeyTile {
    u32 row, count, visit, visits;
    Part part;
    u32 partial, pieces;
};

// A span that contains a tile's rows, as its keys from `position` on.
struct Visit {
    u32 span, position;
};

// Writes `count` segments into the table: for each, `updates` has its number, its position and its row.
// Grid-stride, 256 threads per block.
__global__ void set_segments(Segment *segments, const u32 *updates, u32 count) {
    for (size_t i = thread_in_grid(); i < count; i += threads_of_grid())
        segments[updates[3 * i]] = {updates[3 * i + 1], updates[3 * i + 2]};
}

// Finds the store's rows of a span's keys, which must be requested in order of position.
struct Cursor {
    // The segment after the current one, and the end of the span's segments.
    const Segment *next, *end;
    // Row minus position in the current segment, and the segment's end.
    u32 shift, until;

    __device__ __forceinline__ void take(const Segment *segment) {
        shift = segment->row - segment->position;
        next = segment + 1;
        until = next < end ? next->position : 0xFFFFFFFFu;
    }

    // Starts at a position that is in the span.
    __device__ __forceinline__ Cursor(const Span &span, const Segment *segments, u32 position) {
        const Segment *first = segments + span.segment;
        end = first + span.segments;
        u32 low = 0, high = span.segments;
        while (high - low > 1) {
            u32 middle = (low + high) / 2;
            if (first[middle].position <= position)
                low = middle;
            else
                high = middle;
        }
        take(first + low);
    }

    __device__ __forceinline__ u32 row(u32 position) {
        while (position >= until) take(next);
        return position + shift;
    }
};

// Computes scores from dot products.
struct Scoring {
    float scale, factor, cap, inverse_cap;

    __device__ __forceinline__ Scoring(float scale, float soft_cap)
        : scale(scale),
          factor(soft_cap > 0 ? scale / soft_cap : scale * LOG2_E),
          cap(soft_cap > 0 ? soft_cap * LOG2_E : 0),
          inverse_cap(soft_cap > 0 ? 1 / cap : 0) {}

    // Converts products to scores, in units of log₂. tanh x = 1 − 2 / (e²ˣ + 1) is accurate enough, since
    // only the differences between scores matter.
    template <u32 ROWS, u32 COLUMNS>
    __device__ __forceinline__ void apply(float (&products)[ROWS][COLUMNS]) const {
        if (cap > 0) {
#pragma unroll
            for (u32 i = 0; i < ROWS * COLUMNS; i++) {
                float &x = products[i / COLUMNS][i % COLUMNS];
                x = fmaf(-2 * cap, __fdividef(1, exp2f(2 * LOG2_E * factor * x) + 1), cap);
            }
        } else {
#pragma unroll
            for (u32 i = 0; i < ROWS * COLUMNS; i++) products[i / COLUMNS][i % COLUMNS] *= factor;
        }
    }

    // Replaces a score by its weight exp(score − lse), or 0 if it is masked, and the gradient with respect to
    // the weight by that with respect to the product.
    __device__ __forceinline__ void
    gradient(float &score, float &dweight, bool seen, float lse, float delta) const {
        float share = score * inverse_cap, slope = scale * fmaf(-share, share, 1);
        score = exp2f(seen ? fmaf(lse, -LOG2_E, score) : minus_infinity());
        dweight = score * (dweight - delta) * slope;
    }
};

// The numbers from..to.
struct Range {
    u32 from, last;

    __device__ __forceinline__ Range(u32 from, u32 to)
        : from(to > from ? from : 0xFFFFFFFFu), last(to > from ? to - from - 1 : 0) {}

    __device__ __forceinline__ bool holds(u32 i) const { return i - from <= last; }
};

// Up to a tile of a span's queries, and the keys from..to that any of them attends to.
struct Queries {
    // First token in the batch, position of the first query, number of queries.
    u32 token, position, count;
    u32 from, to;

    __device__ __forceinline__ Queries(const Span &span, u32 first, u32 most, u32 window)
        : token(span.q_start + first),
          position(span.keys - span.q_len + first),
          count(first < span.q_len ? min(most, span.q_len - first) : 0) {
        from = first_key(0, window);
        to = position + count;
    }

    __device__ __forceinline__ u32 first_key(u32 query, u32 window) const {
        u32 at = position + query;
        return window && at >= window ? at - window + 1 : 0;
    }

    // The keys that a query of the tile attends to; empty past the tile's end.
    __device__ __forceinline__ Range keys(u32 query, u32 window) const {
        return query < count ? Range(first_key(query, window), position + query + 1) : Range(0, 0);
    }
};

// The queries from..to of a span that attend to any of `count` keys from position `key` on.
struct KeyQueries {
    // First token of the span, and its position.
    u32 token, position, key;
    u32 from, to;

    __device__ __forceinline__ KeyQueries(const Span &span, u32 key, u32 count, u32 window)
        : token(span.q_start), position(span.keys - span.q_len), key(key) {
        to = span.q_len;
        from = first_query(0);
        to = count > 0 ? query_end(count - 1, window) : from;
    }

    __device__ __forceinline__ u32 first_query(u32 row) const {
        return key + row > position ? key + row - position : 0;
    }
    __device__ __forceinline__ u32 query_end(u32 row, u32 window) const {
        u64 end = (u64)key + row + window;
        return window == 0 ? to : end <= position ? 0 : (u32)min((u64)to, end - position);
    }

    // The queries that attend to one of the keys.
    __device__ __forceinline__ Range queries(u32 row, u32 window) const {
        return Range(first_query(row), query_end(row, window));
    }
};

// A part of the work on a tile of keys for one span: of all pairs of a head of the group and a tile of
// `length` queries, in the order of the heads, then of the queries, those with the numbers from..to.
struct QueryTiles {
    u32 from, to;
    // First head of the group, first query of a head's first tile, queries of a tile, tiles of a head.
    u32 first_head, first_query, length, tiles;

    __device__ __forceinline__
    QueryTiles(const KeyQueries &seeing, u32 length, u32 first_head, u32 group, Part part)
        : first_head(first_head), first_query(seeing.from), length(length) {
        tiles = seeing.to > seeing.from ? (seeing.to - seeing.from + length - 1) / length : 0;
        u32 all = tiles * group, size = (all + part.count - 1) / part.count;
        from = min(part.number * size, all);
        to = min(from + size, all);
    }

    __device__ __forceinline__ u32 head(u32 n) const { return first_head + n / tiles; }
    __device__ __forceinline__ u32 query(u32 n) const { return first_query + n % tiles * length; }
};

// Where a block's sums of gradients of keys and values go: they are added to dk and dv, or written to the
// block's rows of `partial`, of `width` numbers of each.
struct KeyGradients {
    float *dk;
    size_t dk_stride;
    float *dv;
    size_t dv_stride;
    float *partial;
    u32 width;

    // Row i of the tile.
    __device__ __forceinline__ void
    put(const KeyTile &tile, u32 i, u32 column, float dk_sum, float dv_sum) const {
        size_t row = tile.row + i;
        if (tile.pieces == 1) {
            dk[row * dk_stride + column] += dk_sum;
            dv[row * dv_stride + column] += dv_sum;
        } else {
            float *to = partial + (size_t)(tile.partial + i) * 2 * width + column;
            to[0] = dk_sum, to[width] = dv_sum;
        }
    }
};

// Whether 16 bytes can be moved at once at multiples of 16 bytes in the rows.
template <class T> static __device__ __forceinline__ bool aligned_rows(const T *p, size_t stride) {
    return ((size_t)p | stride * sizeof(T)) % 16 == 0;
}

// Copies 16 bytes from global to shared memory. If aligned, they arrive once the thread has waited for its
// copies; otherwise they are copied at once.
template <class T> static __device__ __forceinline__ void copy_chunk(T *to, const T *from, bool aligned) {
    if (aligned) {
        copy_async(to, from);
    } else {
        for (u32 i = 0; i < 16 / sizeof(T); i++) to[i] = from[i];
    }
}

// Starts to copy rows of `head_dim` numbers into a tile of shared memory. This thread and its seven
// neighbours copy the tile's rows threadIdx.x / 8 + 16 n, from rows[n] of `from` (zeros for NO_ROW).
template <class T, u32 COUNT>
static __device__ __forceinline__ void copy_rows(
    T *tile, u32 pitch, const T *from, size_t stride, const u32 (&rows)[COUNT], u32 head_dim, bool aligned) {
    const u32 chunk = 16 / sizeof(T);
#pragma unroll
    for (u32 n = 0; n < COUNT; n++) {
        T *to = tile + (threadIdx.x / ROW_THREADS + n * ROWS_AT_ONCE) * pitch;
        for (u32 c = threadIdx.x % ROW_THREADS * chunk; c < head_dim; c += ROW_THREADS * chunk) {
            if (rows[n] == NO_ROW)
                *(uint4 *)(to + c) = {0, 0, 0, 0};
            else
                copy_chunk(to + c, from + rows[n] * stride + c, aligned);
        }
    }
}

// Rows for `copy_rows`: `count` consecutive ones from `first` on.
template <u32 COUNT>
static __device__ __forceinline__ void consecutive_rows(u32 (&rows)[COUNT], u32 first, u32 count) {
#pragma unroll
    for (u32 n = 0; n < COUNT; n++) {
        u32 i = threadIdx.x / ROW_THREADS + n * ROWS_AT_ONCE;
        rows[n] = i < count ? first + i : NO_ROW;
    }
}

// Rows for `copy_rows`: those of the keys from position `first` up to `to`.
template <u32 COUNT>
static __device__ __forceinline__ void key_rows(u32 (&rows)[COUNT], Cursor &cursor, u32 first, u32 to) {
#pragma unroll
    for (u32 n = 0; n < COUNT; n++) {
        u32 position = first + threadIdx.x / ROW_THREADS + n * ROWS_AT_ONCE;
        rows[n] = position < to ? cursor.row(position) : NO_ROW;
    }
}

// delta[row · heads + head] = Σ dy · y over the head. One warp for each, 256 threads per block, grid rows ·
// heads / 8.
template <class T>
__global__ void attention_delta(
    float *delta, const T *dy, size_t dy_stride, const T *y, size_t y_stride, u32 rows, u32 heads,
    u32 head_dim) {
    size_t i = (size_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (i >= (size_t)rows * heads) return;
    dy += i / heads * dy_stride + i % heads * head_dim;
    y += i / heads * y_stride + i % heads * head_dim;
    bool packed = packable(dy) && packable(y);
    float sum = 0;
    for (u32 c = 4 * (threadIdx.x % WARP); c < head_dim; c += 4 * WARP) {
        float a[4], b[4];
        load4(a, dy + c, head_dim - c, packed);
        load4(b, y + c, head_dim - c, packed);
        for (u32 j = 0; j < 4; j++) sum = fmaf(a[j], b[j], sum);
    }
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) delta[i] = sum;
}
