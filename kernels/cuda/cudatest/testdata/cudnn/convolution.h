/* Convolutions of the graphs that convolutions describes: one convolution, forward or of the gradient, then a bias and
   an activation. Included by fake.c. */

enum { FUSED = 4 };

typedef struct {
    int backward;
    const descriptor *op, *how, *x, *w, *y; /* y: what the convolution writes, x of the gradient too */
    const descriptor *after[FUSED];         /* pointwise, in order */
    int fused;
} convolution;

static const int64_t *ints(const descriptor *d, int name) { return find(d, name)->data; }

static int dims_of(const descriptor *t) { return (int)find(t, TENSOR_DIMENSIONS)->count; }

/* Whether channels are innermost, and what is left nests: as a dense tensor or as part of one. */
static int channels_last(const descriptor *t)
{
    const int64_t *d = ints(t, TENSOR_DIMENSIONS), *s = ints(t, TENSOR_STRIDES);
    int n = dims_of(t);
    int64_t inner = d[1];
    if (s[1] != 1)
        return 0;
    for (int i = n - 1; i >= 2; i--) {
        if (s[i] < inner)
            return 0;
        inner = s[i] * d[i];
    }
    return s[0] >= inner || d[0] == 1;
}

/* The output's size in a dimension, as cuDNN's reference has it. */
static int64_t output_size(const descriptor *how, int i, int64_t in, int64_t kernel)
{
    int64_t padded = in + ints(how, CONVOLUTION_PRE_PADDINGS)[i] + ints(how, CONVOLUTION_POST_PADDINGS)[i];
    return (padded - (kernel - 1) * ints(how, CONVOLUTION_DILATIONS)[i] - 1) / ints(how, CONVOLUTION_FILTER_STRIDES)[i] + 1;
}

/* Whether the graph is one; 0, or why not. */
static int read_convolution(const descriptor *graph, convolution *c)
{
    const attribute *list = find(graph, OPERATIONGRAPH_OPS);
    const descriptor *const *ops = list->data;
    *c = (convolution){.op = ops[0], .backward = ops[0]->type == OPERATION_CONVOLUTION_BWD_DATA, .fused = (int)list->count - 1};
    if (c->fused > FUSED || (c->backward && c->fused))
        return REFUSED_PATTERN;
    int names[4] = {CONVOLUTION_FORWARD_CONV_DESC, CONVOLUTION_FORWARD_X, CONVOLUTION_FORWARD_W, CONVOLUTION_FORWARD_Y};
    if (c->backward)
        memcpy(names, (int[]){CONVOLUTION_BWD_DATA_CONV_DESC, CONVOLUTION_BWD_DATA_DX, CONVOLUTION_BWD_DATA_W, CONVOLUTION_BWD_DATA_DY}, sizeof names);
    c->how = part(c->op, names[0], CONVOLUTION), c->x = part(c->op, names[1], TENSOR), c->w = part(c->op, names[2], TENSOR), c->y = part(c->op, names[3], TENSOR);
    int n = dims_of(c->x), spatial = (int)number(c->how, CONVOLUTION_SPATIAL_DIMS, 0);
    const int64_t *x = ints(c->x, TENSOR_DIMENSIONS), *w = ints(c->w, TENSOR_DIMENSIONS), *y = ints(c->y, TENSOR_DIMENSIONS);
    if (n != spatial + 2 || dims_of(c->w) != n || dims_of(c->y) != n || spatial < 2 || spatial > 3)
        return BAD_SHAPE;
    if (x[0] != y[0] || w[0] != y[1] || x[1] % w[1] || w[0] % (x[1] / w[1]))
        return BAD_SHAPE;
    for (int i = 0; i < spatial; i++)
        if (y[i + 2] != output_size(c->how, i, x[i + 2], w[i + 2]))
            return BAD_SHAPE;
    if (number(c->how, CONVOLUTION_COMP_TYPE, -1) != DATA_FLOAT || number(c->how, CONVOLUTION_CONV_MODE, -1) != CROSS_CORRELATION)
        return REFUSED;
    const descriptor *all[3] = {c->x, c->w, c->y};
    for (int i = 0; i < 3; i++)
        if (number(all[i], TENSOR_DATA_TYPE, -1) != DATA_FLOAT || !channels_last(all[i]))
            return REFUSED_LAYOUT;
    /* The filter is dense. */
    const int64_t *ws = ints(c->w, TENSOR_STRIDES);
    int64_t next = w[1];
    for (int i = n - 1; i >= 2; i--, next *= w[i + 1])
        if (ws[i] != next)
            return REFUSED_LAYOUT;
    if (ws[0] != next)
        return REFUSED_LAYOUT;
    const double one = 1, zero = 0;
    if (memcmp(find(c->op, c->backward ? CONVOLUTION_BWD_DATA_ALPHA : CONVOLUTION_FORWARD_ALPHA)->data, &one, 8) ||
        memcmp(find(c->op, c->backward ? CONVOLUTION_BWD_DATA_BETA : CONVOLUTION_FORWARD_BETA)->data, &zero, 8))
        return REFUSED;
    const descriptor *last = c->y;
    for (int i = 0; i < c->fused; i++) {
        const descriptor *op = c->after[i] = ops[i + 1], *to = part(op, OPERATION_POINTWISE_YDESC, TENSOR), *b = part(op, OPERATION_POINTWISE_BDESC, TENSOR);
        int64_t mode = number(part(op, OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE), POINTWISE_MODE, -1);
        if (op->type != OPERATION_POINTWISE || part(op, OPERATION_POINTWISE_XDESC, TENSOR) != last || !number(last, TENSOR_IS_VIRTUAL, 0))
            return REFUSED_PATTERN;
        if (dims_of(to) != n || memcmp(ints(to, TENSOR_DIMENSIONS), y, sizeof *y * (size_t)n) || !channels_last(to))
            return BAD_SHAPE;
        if ((mode == POINTWISE_ADD) != (b != NULL))
            return BAD;
        for (int j = 0; b && j < n; j++) /* a bias: one for each channel */
            if (dims_of(b) != n || ints(b, TENSOR_DIMENSIONS)[j] != (j == 1 ? y[1] : 1))
                return REFUSED_PATTERN;
        last = to;
    }
    return number(last, TENSOR_IS_VIRTUAL, 0) ? BAD : 0;
}

/* Whether tensor cores alone do what follows the convolution: of the engines without them some do a bias, and a
   bias with ReLU. */
static int wants_tensor_cores(const convolution *c)
{
    for (int i = 0; i < c->fused; i++) {
        int64_t mode = number(part(c->after[i], OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE), POINTWISE_MODE, -1);
        if (mode != (i ? POINTWISE_RELU : POINTWISE_ADD))
            return 1;
    }
    return 0;
}

static float *element(const descriptor *t, void *const *at, const int64_t *place)
{
    float *p = at[uid(t)];
    for (int i = 0; i < dims_of(t); i++)
        p += place[i] * ints(t, TENSOR_STRIDES)[i];
    return p;
}

/* What a pointwise operation makes of a sum. */
static float finish(const descriptor *op, void *const *at, float x, int64_t channel)
{
    const descriptor *how = part(op, OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE);
    switch (number(how, POINTWISE_MODE, -1)) {
    case POINTWISE_ADD: return x + ((float *)at[uid(part(op, OPERATION_POINTWISE_BDESC, TENSOR))])[channel];
    case POINTWISE_RELU: return x < 0 ? 0 : x;
    default: return NAN;
    }
}

/* Calls of a place of the output, or of the input of a gradient: where taps lie. */
static float forward(const convolution *c, void *const *at, const int64_t *y)
{
    int n = dims_of(c->x), spatial = n - 2;
    const int64_t *xd = ints(c->x, TENSOR_DIMENSIONS), *wd = ints(c->w, TENSOR_DIMENSIONS);
    int64_t x[8] = {y[0]}, w[8] = {y[1]}, taps = 1;
    float sum = 0;
    for (int i = 0; i < spatial; i++)
        taps *= wd[i + 2];
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t rest = tap;
        int inside = 1;
        for (int i = spatial - 1; i >= 0; i--) {
            w[i + 2] = rest % wd[i + 2], rest /= wd[i + 2];
            x[i + 2] = y[i + 2] * ints(c->how, CONVOLUTION_FILTER_STRIDES)[i] - ints(c->how, CONVOLUTION_PRE_PADDINGS)[i] +
                       w[i + 2] * ints(c->how, CONVOLUTION_DILATIONS)[i];
            inside = inside && x[i + 2] >= 0 && x[i + 2] < xd[i + 2];
        }
        if (!inside)
            continue;
        x[1] = y[1] / (wd[0] / (xd[1] / wd[1])) * wd[1];
        const float *in = element(c->x, at, x), *weight = element(c->w, at, w);
        for (int64_t j = 0; j < wd[1]; j++) /* channels lie side by side */
            sum = fmaf(in[j], weight[j], sum);
    }
    for (int i = 0; i < c->fused; i++)
        sum = finish(c->after[i], at, sum, y[1]);
    return sum;
}

static float gradient(const convolution *c, void *const *at, const int64_t *x)
{
    int n = dims_of(c->x), spatial = n - 2;
    const int64_t *xd = ints(c->x, TENSOR_DIMENSIONS), *yd = ints(c->y, TENSOR_DIMENSIONS), *wd = ints(c->w, TENSOR_DIMENSIONS);
    int64_t y[8] = {x[0]}, w[8] = {0}, taps = 1, each = wd[0] / (xd[1] / wd[1]);
    float sum = 0;
    for (int i = 0; i < spatial; i++)
        taps *= wd[i + 2];
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t rest = tap;
        int inside = 1;
        for (int i = spatial - 1; i >= 0; i--) {
            int64_t stride = ints(c->how, CONVOLUTION_FILTER_STRIDES)[i];
            w[i + 2] = rest % wd[i + 2], rest /= wd[i + 2];
            int64_t from = x[i + 2] + ints(c->how, CONVOLUTION_PRE_PADDINGS)[i] - w[i + 2] * ints(c->how, CONVOLUTION_DILATIONS)[i];
            y[i + 2] = from / stride;
            inside = inside && from >= 0 && from % stride == 0 && y[i + 2] < yd[i + 2];
        }
        if (!inside)
            continue;
        w[1] = x[1] % wd[1];
        w[0] = y[1] = x[1] / wd[1] * each;
        const float *out = element(c->y, at, y), *weight = element(c->w, at, w);
        for (int64_t j = 0; j < each; j++)
            sum = fmaf(out[j], weight[j * ints(c->w, TENSOR_STRIDES)[0]], sum);
    }
    return sum;
}

static int run_convolution(const descriptor *plan, void *const *at)
{
    convolution c;
    if (read_convolution(plan->graph, &c))
        return BAD;
    const descriptor *to = c.backward ? c.x : c.fused ? part(c.after[c.fused - 1], OPERATION_POINTWISE_YDESC, TENSOR) : c.y;
    const int64_t *d = ints(to, TENSOR_DIMENSIONS);
    int64_t place[8], all = 1;
    for (int i = 0; i < dims_of(to); i++)
        all *= d[i];
    for (int64_t e = 0; e < all; e++) {
        int64_t rest = e;
        for (int i = dims_of(to) - 1; i >= 0; i--)
            place[i] = rest % d[i], rest /= d[i];
        *element(to, at, place) = c.backward ? gradient(&c, at, place) : forward(&c, at, place);
    }
    return 0;
}
