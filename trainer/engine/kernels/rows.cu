// Copies, additions and sums of rows. A block processes one row unless stated otherwise.

// Grid-stride, 256 threads per block.
template <class Y, class X> __global__ void convert(Y *y, const X *x, size_t n) {
    bool packed = packable(y) && packable(x);
    for (size_t i = 4 * thread_in_grid(); i < n; i += 4 * threads_of_grid()) {
        float v[4];
        load4(v, x + i, n - i, packed);
        store4(y + i, v, n - i, packed);
    }
}

// x = factor · x. Grid-stride, 256 threads per block.
template <class X> __global__ void scale(X *x, size_t n, float factor) {
    bool packed = packable(x);
    for (size_t i = 4 * thread_in_grid(); i < n; i += 4 * threads_of_grid()) {
        float v[4];
        load4(v, x + i, n - i, packed);
        for (u32 j = 0; j < 4; j++) v[j] *= factor;
        store4(x + i, v, n - i, packed);
    }
}

// x = cap · tanh(x / cap). Grid-stride, 256 threads per block.
__global__ void soft_cap(float *x, size_t n, float cap) {
    bool packed = packable(x);
    for (size_t i = 4 * thread_in_grid(); i < n; i += 4 * threads_of_grid()) {
        float v[4];
        load4(v, x + i, n - i, packed);
        for (u32 j = 0; j < 4; j++) v[j] = cap * tanhf(v[j] / cap);
        store4(x + i, v, n - i, packed);
    }
}

// y = factor · x for one row, computed by a block.
template <class Y, class X>
static __device__ __forceinline__ void copy_row(Y *y, const X *x, u32 width, float factor) {
    bool packed = packable(y) && packable(x);
    for (u32 c = 4 * threadIdx.x; c < width; c += 4 * blockDim.x) {
        float v[4];
        load4(v, x + c, width - c, packed);
        for (u32 j = 0; j < 4; j++) v[j] *= factor;
        store4(y + c, v, width - c, packed);
    }
}

// y[i] = scale · table[tokens[i]]. 128 threads per row.
template <class Y>
__global__ void embed(Y *y, const float *table, const u32 *tokens, u32 rows, u32 width, float scale) {
    u32 row = blockIdx.x;
    if (row >= rows) return;
    copy_row(y + (size_t)row * width, table + (size_t)tokens[row] * width, width, scale);
}

// dtable[ids[g]] += scale · Σ dy[order[i]] for i in starts[g]..starts[g + 1], in that order. One block adds
// all rows of a token, so no two blocks add to the same row. 128 threads per group.
template <class X>
__global__ void embed_backward(
    float *dtable, const X *dy, const u32 *order, const u32 *starts, const u32 *ids, u32 groups, u32 width,
    float scale) {
    u32 group = blockIdx.x;
    if (group >= groups) return;
    float *row = dtable + (size_t)ids[group] * width;
    u32 from = starts[group], to = starts[group + 1];
    bool packed = packable_rows(dy, width) && packable(row);
    for (u32 c = 4 * threadIdx.x; c < width; c += 4 * blockDim.x) {
        float sum[4] = {}, v[4];
        for (u32 i = from; i < to; i++) {
            load4(v, dy + (size_t)order[i] * width + c, width - c, packed);
            for (u32 j = 0; j < 4; j++) sum[j] += v[j];
        }
        load4(v, row + c, width - c, packed);
        for (u32 j = 0; j < 4; j++) v[j] = fmaf(scale, sum[j], v[j]);
        store4(row + c, v, width - c, packed);
    }
}

// y[i] = x[rows[i]]. 128 threads per row.
template <class Y, class X> __global__ void gather(Y *y, const X *x, const u32 *rows, u32 count, u32 width) {
    u32 i = blockIdx.x;
    if (i >= count) return;
    copy_row(y + (size_t)i * width, x + (size_t)rows[i] * width, width, 1);
}

// y[rows[i]] += x[i], with distinct rows. 128 threads per row.
template <class Y, class X>
__global__ void scatter_add(Y *y, const X *x, const u32 *rows, u32 count, u32 width) {
    u32 i = blockIdx.x;
    if (i >= count) return;
    y += (size_t)rows[i] * width;
    x += (size_t)i * width;
    bool packed = packable(y) && packable(x);
    for (u32 c = 4 * threadIdx.x; c < width; c += 4 * blockDim.x) {
        float sum[4], v[4];
        load4(sum, y + c, width - c, packed);
        load4(v, x + c, width - c, packed);
        for (u32 j = 0; j < 4; j++) sum[j] += v[j];
        store4(y + c, sum, width - c, packed);
    }
}

// y[rows[i]] = x[i] for the first `width` numbers of each row, except where rows[i] is NO_ROW. 128 threads
// per row.
template <class Y, class X>
__global__ void
store(Y *y, size_t y_stride, const X *x, size_t x_stride, const u32 *rows, u32 count, u32 width) {
    u32 i = blockIdx.x;
    if (i >= count || rows[i] == NO_ROW) return;
    copy_row(y + rows[i] * y_stride, x + i * x_stride, width, 1);
}

// y[i] += bias. Grid (width / 1024, rows or fewer), 256 threads.
template <class Y> __global__ void add_bias(Y *y, const float *bias, u32 rows, u32 width) {
    size_t c = 4 * thread_in_grid();
    if (c >= width) return;
    bool packed = packable_rows(y, width) && packable(bias);
    float sum[4], b[4];
    load4(b, bias + c, width - c, packed);
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        Y *at = y + row * width + c;
        load4(sum, at, width - c, packed);
        for (u32 j = 0; j < 4; j++) sum[j] += b[j];
        store4(at, sum, width - c, packed);
    }
}

// partial[part][c] = Σ x[row][c] over the part's rows, in order. Grid (columns / 128, parts), one thread per
// column.
template <class X>
__global__ void column_sums(float *partial, const X *x, u32 rows, u32 width, u32 rows_a_part) {
    u32 column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= width) return;
    size_t from = (size_t)blockIdx.y * rows_a_part, to = min(from + rows_a_part, (size_t)rows);
    float sum = 0;
    for (size_t row = from; row < to; row++) sum += to_float(x[row * width + column]);
    partial[(size_t)blockIdx.y * width + column] = sum;
}

// y[c] += Σ partial[part][c]. A block adds eight columns, 32 bytes of a part, with 32 threads for each: a
// thread adds every 32nd part in order, and the threads' sums are added in a pairwise tree. Grid columns / 8,
// 256 threads.
__global__ void add_parts(float *y, const float *partial, u32 parts, u32 width) {
    const u32 columns = 8, rows = 32;
    __shared__ float sums[rows][columns];
    u32 c = threadIdx.x % columns, row = threadIdx.x / columns, column = blockIdx.x * columns + c;
    float sum = 0;
    if (column < width) {
#pragma unroll 4
        for (u32 part = row; part < parts; part += rows) sum += partial[(size_t)part * width + column];
    }
    sums[row][c] = sum;
    for (u32 step = rows / 2; step > 0; step /= 2) {
        __syncthreads();
        if (row < step) sums[row][c] += sums[row + step][c];
    }
    if (row == 0 && column < width) y[column] += sums[0][c];
}
