// Products of bf16 tiles in shared memory, on tensor cores, by a warp that has 16 rows of the result: rows of
// queries times keys, and weights times values.
//
// Rows of tiles are WIDEST + 8 numbers apart, so that the 16-byte pieces of eight rows lie in different
// banks, as ldmatrix requires. Of the sums of a product, lane 4g + t has the rows g and g + 8, and the
// columns 2t and 2t + 1 of each eight: sums[j][0] and [1] of row g, [2] and [3] of row g + 8.

// The address of a lane's rows of the four matrices that form 16 × 16 numbers of a tile with rows `pitch`
// apart. Here in the order of the left operand's fragments, or of two right operands', transposed, with the
// tile's columns.
static __device__ __forceinline__ SharedAddress by_rows(const bf16 *tile, u32 pitch) {
    u32 lane = threadIdx.x % WARP;
    return shared_address(tile + lane % 16 * pitch + lane / 16 * 8);
}

// The same in the order of two right operands: their columns are the tile's rows 0 to 7 and 8 to 15.
static __device__ __forceinline__ SharedAddress by_columns(const bf16 *tile, u32 pitch) {
    u32 lane = threadIdx.x % WARP;
    return shared_address(tile + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 8);
}

// sums (16 × 8 COUNT) = a · bᵀ over the head: 16 rows of `a` and 8 COUNT rows of `b`, tiles of shared memory
// with rows WIDEST + 8 long.
template <u32 WIDEST, u32 COUNT>
static __device__ __forceinline__ void
row_products(float (&sums)[COUNT][4], const bf16 *a, const bf16 *b, u32 head_dim) {
    const u32 pitch = WIDEST + 8, bytes = sizeof(bf16);
    SharedAddress left_at = by_rows(a, pitch), right_at = by_columns(b, pitch);
#pragma unroll
    for (u32 j = 0; j < COUNT; j++) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
#pragma unroll
    for (u32 c = 0; c < WIDEST; c += 16) {
        if (c >= head_dim) break;
        u32 left[4];
        load_matrices(left, left_at + c * bytes);
#pragma unroll
        for (u32 j = 0; j < COUNT; j += 2) {
            u32 right[4];
            load_matrices(right, right_at + (8 * j * pitch + c) * bytes);
            mma(sums[j], left, {right[0], right[1]});
            mma(sums[j + 1], left, {right[2], right[3]});
        }
    }
}

// out (16 × width) += weights (16 × 8 COUNT) · b, where `b` is columns of 8 COUNT rows of a tile as above.
// Rounded weights in the layout of `mma`'s sums have the layout of its left operand.
template <u32 PITCH, u32 COLUMNS, u32 COUNT>
static __device__ __forceinline__ void
add_weighted(float (&out)[COLUMNS][4], const float (&weights)[COUNT][4], const bf16 *b, u32 width) {
    const u32 bytes = sizeof(bf16);
    SharedAddress right_at = by_rows(b, PITCH);
#pragma unroll
    for (u32 s = 0; s < COUNT; s += 2) {
        const float (&low)[4] = weights[s], (&high)[4] = weights[s + 1];
        u32 left[4] = {
            to_bf16_pair(low[0], low[1]), to_bf16_pair(low[2], low[3]), to_bf16_pair(high[0], high[1]),
            to_bf16_pair(high[2], high[3])};
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j += 2) {
            if (8 * j >= width) break;
            u32 right[4];
            load_transposed(right, right_at + 8 * (s * PITCH + j) * bytes);
            mma(out[j], left, {right[0], right[1]});
            mma(out[j + 1], left, {right[2], right[3]});
        }
    }
}

// The maximum and the sum over the four lanes that share a row of sums.
static __device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, 1));
    return fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, 2));
}
static __device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(WHOLE_WARP, x, 1);
    return x + __shfl_xor_sync(WHOLE_WARP, x, 2);
}
