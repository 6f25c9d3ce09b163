// RMS norms: y = x / √(mean(x²) + eps) · (offset + weight) for each of `rows` × `heads` vectors, which are as
// wide as the weight. A warp processes a vector.

static __device__ __forceinline__ u32 warp_in_block() { return threadIdx.x / WARP; }

// 1 / √(mean(x²) + eps) of one vector, in all lanes.
template <class X>
static __device__ __forceinline__ float inverse_rms(const X *x, u32 width, float eps, bool packed) {
    float sum = 0, v[4];
    for (u32 c = 4 * (threadIdx.x % WARP); c < width; c += 4 * WARP) {
        load4(v, x + c, width - c, packed);
        for (u32 j = 0; j < 4; j++) sum = fmaf(v[j], v[j], sum);
    }
    return 1 / sqrtf(warp_sum(sum) / width + eps);
}

// Added to `y` if `accumulate`. Four vectors per block of 128 threads; grid rows · heads / 4.
template <class Y, class X>
__global__ void rms_norm(
    Y *y, size_t y_stride, const X *x, size_t x_stride, const float *weight, u32 rows, u32 heads, u32 width,
    float eps, float offset, int accumulate) {
    size_t vector = (size_t)blockIdx.x * (blockDim.x / WARP) + warp_in_block();
    if (vector >= (size_t)rows * heads) return;
    size_t row = vector / heads, first = vector % heads * width;
    x += row * x_stride + first;
    y += row * y_stride + first;
    bool x_packed = packable(x), packed = packable(y) && packable(weight);
    float scale = inverse_rms(x, width, eps, x_packed);
    for (u32 c = 4 * (threadIdx.x % WARP); c < width; c += 4 * WARP) {
        float v[4], w[4], before[4] = {};
        load4(v, x + c, width - c, x_packed);
        load4(w, weight + c, width - c, packed);
        if (accumulate) load4(before, y + c, width - c, packed);
        for (u32 j = 0; j < 4; j++) v[j] = fmaf(v[j] * scale, w[j] + offset, before[j]);
        store4(y + c, v, width - c, packed);
    }
}

// dx += the gradient with respect to x, and partial[part] = Σ dy · x / rms over the part's vectors, in order.
// (`add_parts` adds the parts to the weight's gradient.) With s = 1 / rms: dx = dy·(offset + weight)·s − x ·
// s³ · mean(dy·(offset + weight)·x).
//
// One block of 128 threads per part of `vectors_a_part` vectors, which it processes four at a time: first a
// vector per warp for dx, then columns per thread for the weight. Dynamic shared memory: `width` floats.
template <class DX, class DY, class X>
__global__ void rms_norm_backward(
    DX *dx, size_t dx_stride, const DY *dy, size_t dy_stride, const X *x, size_t x_stride,
    const float *weight, float *partial, u32 rows, u32 heads, u32 width, float eps, float offset,
    u32 vectors_a_part) {
    float *dweight = (float *)dynamic_shared;
    __shared__ float scales[32];
    u32 lane = threadIdx.x % WARP, warps = blockDim.x / WARP;
    size_t from = (size_t)blockIdx.x * vectors_a_part, to = min(from + vectors_a_part, (size_t)rows * heads);
    for (u32 c = threadIdx.x; c < width; c += blockDim.x) dweight[c] = 0;
    for (size_t first = from; first < to; first += warps) {
        size_t vector = first + warp_in_block();
        if (vector < to) {
            size_t row = vector / heads, start = vector % heads * width;
            const X *xs = x + row * x_stride + start;
            const DY *dys = dy + row * dy_stride + start;
            DX *dxs = dx + row * dx_stride + start;
            bool x_packed = packable(xs), packed = packable(dys) && packable(dxs) && packable(weight);
            float scale = inverse_rms(xs, width, eps, x_packed), along = 0;
            for (u32 c = 4 * lane; c < width; c += 4 * WARP) {
                float v[4], w[4], g[4];
                load4(v, xs + c, width - c, x_packed);
                load4(w, weight + c, width - c, packed);
                load4(g, dys + c, width - c, packed);
                for (u32 j = 0; j < 4; j++) along = fmaf(g[j] * (w[j] + offset), v[j], along);
            }
            float pull = warp_sum(along) * scale * scale * scale / width;
            for (u32 c = 4 * lane; c < width; c += 4 * WARP) {
                float v[4], w[4], g[4], sum[4];
                load4(v, xs + c, width - c, x_packed);
                load4(w, weight + c, width - c, packed);
                load4(g, dys + c, width - c, packed);
                load4(sum, dxs + c, width - c, packed);
                for (u32 j = 0; j < 4; j++) sum[j] += fmaf(-pull, v[j], g[j] * (w[j] + offset) * scale);
                store4(dxs + c, sum, width - c, packed);
            }
            if (lane == 0) scales[warp_in_block()] = scale;
        }
        __syncthreads();
        u32 count = (u32)min((size_t)warps, to - first);
        for (u32 c = threadIdx.x; c < width; c += blockDim.x) {
            float sum = dweight[c];
            for (u32 i = 0; i < count; i++) {
                size_t row = (first + i) / heads, at = (first + i) % heads * width + c;
                sum = fmaf(
                    to_float(dy[row * dy_stride + at]), to_float(x[row * x_stride + at]) * scales[i], sum);
            }
            dweight[c] = sum;
        }
        __syncthreads();
    }
    for (u32 c = threadIdx.x; c < width; c += blockDim.x)
        partial[(size_t)blockIdx.x * width + c] = dweight[c];
}
