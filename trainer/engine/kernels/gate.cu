// The feed-forward block's gate: y = activation(a) · b, where a row of x is a, then b, each of width `width`.
// Activations: 0 is SiLU, 1 is GELU by its tanh approximation. Grid (width / 1024, rows or fewer), 256 threads.

static __device__ __forceinline__ float sigmoid(float a) { return reciprocal(1 + expf(-a)); }

// The activation at `a`, and its slope there.
static __device__ __forceinline__ float activate(float a, int activation, float &slope) {
    if (activation == 0) {
        float share = sigmoid(a);
        slope = share * fmaf(a, 1 - share, 1);
        return a * share;
    }
    // ½ (1 + tanh u) = σ(2u) loses no digits where tanh is near -1; u = √(2/π) · (a + 0.044715 a³).
    const float twice_scale = 1.5957691216057308f, cubic = 0.044715f;
    float square = a * a;
    float share = sigmoid(fmaf(square, cubic, 1) * a * twice_scale);
    float bend = a * (fmaf(square, 3 * cubic, 1) * twice_scale) * (1 - share);
    slope = share * (bend + 1);
    return a * share;
}

template <class T> __global__ void gate(T *y, const T *x, u32 rows, u32 width, int activation) {
    size_t c = 4 * thread_in_grid();
    if (c >= width) return;
    size_t left = width - c;
    bool packed = packable_rows(y, width) && packable_rows(x, width);
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const T *from = x + row * 2 * width + c;
        float a[4], b[4], slope;
        load4(a, from, left, packed);
        load4(b, from + width, left, packed);
        for (u32 j = 0; j < 4; j++) a[j] = activate(a[j], activation, slope) * b[j];
        store4(y + row * width + c, a, left, packed);
    }
}

// Replaces x by the gradients with respect to a and b.
template <class T> __global__ void gate_backward(T *x, const T *dy, u32 rows, u32 width, int activation) {
    size_t c = 4 * thread_in_grid();
    if (c >= width) return;
    size_t left = width - c;
    bool packed = packable_rows(dy, width) && packable_rows(x, width);
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        T *at = x + row * 2 * width + c;
        float a[4], b[4], d[4];
        load4(a, at, left, packed);
        load4(b, at + width, left, packed);
        load4(d, dy + row * width + c, left, packed);
        for (u32 j = 0; j < 4; j++) {
            float slope, value = activate(a[j], activation, slope);
            a[j] = d[j] * b[j] * slope;
            b[j] = d[j] * value;
        }
        store4(at, a, left, packed);
        store4(at + width, b, left, packed);
    }
}
