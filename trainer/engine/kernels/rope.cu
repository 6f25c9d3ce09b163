// Rotary position embeddings (Su et al. 2021) in the layout of GPT-NeoX: numbers j and j + head_dim / 2 of a
// head form a pair.

// Writes a row of the table for each token: `half` cosines, then `half` sines of position · frequency.
// Grid-stride, 256 threads per block.
__global__ void rope_table(float *table, const float *frequencies, const u32 *positions, u32 rows, u32 half) {
    size_t n = (size_t)rows * half;
    for (size_t i = thread_in_grid(); i < n; i += threads_of_grid()) {
        size_t row = i / half, j = i % half;
        float *to = table + row * 2 * half + j;
        sincosf((float)positions[row] * frequencies[j], to + half, to);
    }
}

// Adds the bias, if there is one, to the `width` numbers of each row, and rotates the pairs of the first
// `heads` heads by the row's angles, forwards (`turn` 1) or back (-1). 128 threads per row.
template <class X>
__global__ void
rope(X *x, size_t stride, const float *bias, u32 width, const float *table, u32 rows, u32 heads, u32 head_dim,
     float turn) {
    u32 row = blockIdx.x;
    if (row >= rows) return;
    x += row * stride;
    table += (size_t)row * head_dim;
    u32 half = head_dim / 2;
    // Groups of up to four pairs.
    u32 groups = (half + 3) / 4;
    bool packed = packable_rows(x, half) && packable_rows(table, half) && packable(bias);
    for (u32 i = threadIdx.x; i < heads * groups; i += blockDim.x) {
        u32 j = i % groups * 4, left = half - j;
        u32 at = i / groups * head_dim + j;
        X *head = x + at;
        float a[4], b[4], cosine[4], sine[4];
        load4(a, head, left, packed);
        load4(b, head + half, left, packed);
        if (bias) {
            float to_a[4], to_b[4];
            load4(to_a, bias + at, left, packed);
            load4(to_b, bias + at + half, left, packed);
            for (u32 k = 0; k < 4; k++) a[k] += to_a[k], b[k] += to_b[k];
        }
        load4(cosine, table + j, left, packed);
        load4(sine, table + half + j, left, packed);
        for (u32 k = 0; k < 4; k++) {
            float s = sine[k] * turn, before = a[k];
            a[k] = fmaf(before, cosine[k], -(b[k] * s));
            b[k] = fmaf(b[k], cosine[k], before * s);
        }
        store4(head, a, left, packed);
        store4(head + half, b, left, packed);
    }
    if (!bias) return;
    // The values, which are not rotated.
    for (u32 c = heads * head_dim + 4 * threadIdx.x; c < width; c += 4 * blockDim.x) {
        float sum[4], more[4];
        load4(sum, x + c, width - c, packed);
        load4(more, bias + c, width - c, packed);
        for (u32 k = 0; k < 4; k++) sum[k] += more[k];
        store4(x + c, sum, width - c, packed);
    }
}
