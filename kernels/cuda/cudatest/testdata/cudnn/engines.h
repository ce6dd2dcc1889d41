/* The engines that heuristics give, as descriptors. Included by fake.c. */

/* The engines of convolutions: what makes an engine unfit for float32 whose bits depend on nothing beside an image,
   and two that are fit, the second for more images and worse. */
enum { TENSOR_CORES, WINOGRAD, SPLITS_SUMS, DIRECT, GENERAL, ENGINES, ATTENTION = 9 };

/* The engines that a heuristic gives for a graph, best first. */
static int engines_for(const descriptor *operations, int64_t mode, int64_t *list)
{
    convolution c;
    int n = 0;
    if (!is_convolution(operations))
        return list[0] = ATTENTION, mode == HEUR_MODE_A;
    if (read_convolution(operations, &c) || (c.fused && !setting("FAKE_CUDNN_FUSES", 1)))
        return 0;
    if (mode == HEUR_MODE_A && !setting("FAKE_CUDNN_HEURISTIC", 1))
        return 0;
    list[n++] = TENSOR_CORES;
    if (wants_tensor_cores(&c))
        return n;
    for (int64_t e = mode == HEUR_MODE_A ? WINOGRAD : GENERAL; e < (mode == HEUR_MODE_A ? GENERAL : ENGINES); e++)
        list[n++] = e;
    return n;
}

/* Gives descriptor d an attribute after the fact. */
static void give(descriptor *d, int name, int type, int64_t value)
{
    keep(d, name, type, 1, &value);
    d->finalized = 1;
}

/* What a heuristic found: configurations, of which each knows its engine. */
static int read_results(const descriptor *d, int64_t capacity, int64_t *count, descriptor **to)
{
    int64_t list[ENGINES];
    int n = engines_for(part(d, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH), number(d, ENGINEHEUR_MODE, -1), list);
    for (*count = 0; *count < n && *count < capacity; ++*count) {
        if (to[*count]->type != ENGINECFG)
            return BAD_DESCRIPTOR;
        to[*count]->program[0] = list[*count];
        to[*count]->finalized = 1;
    }
    return 0;
}

static int read_config(const descriptor *d, int name, int64_t capacity, int64_t *count, descriptor **to)
{
    int64_t index = d->program[0];
    if (name == ENGINECFG_ENGINE) {
        give(to[0], ENGINE_GLOBAL_INDEX, TYPE_INT64, index);
        return *count = 1, 0;
    }
    *count = index == ATTENTION ? 2 : 1;
    if (name != ENGINECFG_KNOB_CHOICES || capacity < *count)
        return BAD;
    if (index != ATTENTION) {
        give(to[0], KNOB_CHOICE_KNOB_TYPE, TYPE_KNOB_TYPE, KNOB_SPLIT_K_SLC);
        give(to[0], KNOB_CHOICE_KNOB_VALUE, TYPE_INT64, index == SPLITS_SUMS ? 4 : 1);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        give(to[i], KNOB_CHOICE_KNOB_TYPE, TYPE_KNOB_TYPE, i ? KNOB_STREAM_K : 40);
        give(to[i], KNOB_CHOICE_KNOB_VALUE, TYPE_INT64, i ? setting("FAKE_CUDNN_STREAM_K", 0) : 3);
    }
    return 0;
}
