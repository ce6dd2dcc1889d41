//go:build cgo && linux && amd64

// Convolutions: products of tiles of outputs with panels of weights, whose rows are taken where they lie or, where
// a kernel covers more than one place, are gathered beside each other first; depthwise ones by strips.

#include "packing.h"

enum { GATHERED = 1152 };      // taps times channels that are gathered at a time
enum { BLOCK_BYTES = 192 << 10 }; // of inputs of a block, which stay in the second-level cache
enum { TASKS_PER_THREAD = 4 };
enum { MOST_RUNS = 64 };

// What lies around an input, where it is read like one.
static const float zeros[16 << 10];

int64_t pn_inside(const pn_axis *a, int64_t i, int *from, int *to)
{
	int64_t place = a->base + i * a->step, dilation = a->dilation, first, end;
	if (dilation > 0) {
		first = place < 0 ? (dilation == 1 ? -place : pn_ceil(-place, dilation)) : 0;
		end = place < a->in ? (dilation == 1 ? a->in - place : pn_ceil(a->in - place, dilation)) : 0;
	} else {
		first = place >= a->in ? (place - a->in) / -dilation + 1 : 0;
		end = place >= 0 ? place / -dilation + 1 : 0;
	}
	*from = (int)pn_min(first, a->taps);
	*to = (int)pn_max(*from, pn_min(end, a->taps));
	return place;
}

// job is a convolution for all threads. Outputs of an image are lines of positions that lie evenly: all of them, or
// those along the last axis. A task is a block of a line and some of the panels of a group.
typedef struct job {
	const pn_device *d;
	const pn_convolution *c;
	const pn_filter *f; // of the direction: from in to out
	const pn_program *then; // NULL for none
	int ends;               // whether that is an ending
	const pn_image *operands;

	int direct;              // whether a position's input lies where it is, as one place
	int inner[2], run_taps;  // for windows: outputs of a line whose taps along it are inside, and taps of a run
	const float *zeros;
	int64_t lines, length;   // lines of an image and positions of a line
	int64_t block, blocks;   // positions of a block and blocks of a line
	int panels, group_panels; // of a group of channels, and those of them that are a task
	size_t depth;            // taps times channels
	int chunk;               // taps that are gathered at a time
	ptrdiff_t lda;           // between gathered rows
} job;

// even tells whether positions of an image lie evenly, with these strides of the axes.
static int even(const pn_axis *a, ptrdiff_t outer, ptrdiff_t middle, ptrdiff_t inner)
{
	return (a[1].out == 1 || middle == inner * a[2].out) &&
	       (a[0].out == 1 || outer == (a[1].out == 1 ? inner * a[2].out : middle * a[1].out));
}

static int all_even(const job *j)
{
	const pn_axis *a = j->c->axis;
	int is = even(a, a[0].dst, a[1].dst, a[2].dst);
	for (int i = 0; j->then && i < j->then->operands + j->then->results - 1; i++) {
		const ptrdiff_t *s = j->operands[i].axis;
		is &= even(a, s[0], s[1], s[2]);
	}
	if (j->direct)
		is &= even(a, a[0].step * a[0].src, a[1].step * a[1].src, a[2].step * a[2].src);
	return is;
}

// all_inside tells whether the only tap lies in the input for all outputs.
static int all_inside(const pn_axis *a)
{
	for (int i = 0; i < 3; i++)
		if (a[i].taps != 1 || a[i].base < 0 || a[i].base + (int64_t)(a[i].out - 1) * a[i].step >= a[i].in)
			return 0;
	return 1;
}

// position is where a line's position p is along the axes.
static void position(const job *j, int64_t line, int64_t p, int64_t at[3])
{
	const pn_axis *a = j->c->axis;
	int64_t i = line * j->length + p;
	at[2] = i % a[2].out;
	at[1] = i / a[2].out % a[1].out;
	at[0] = i / a[2].out / a[1].out;
}

// part is which panels of which group a task computes.
typedef struct part {
	int group, first, last;
} part;

// first_sums is what sums of outputs begin with: the shift where nothing is multiplied before, or NULL for 0.
static const float *first_sums(const job *j) { return j->c->scale ? NULL : j->c->shift; }

// multiply computes so many outputs, ldc apart, of the taps [from, to): of row i the inputs are runs of k at a[j] + i*lda.
static void multiply(const job *j, part w, int runs, size_t k, const float *const *a, ptrdiff_t lda, int64_t outputs,
                     int from, float *dst, ptrdiff_t ldc, const pn_ending *ending)
{
	const pn_kernels *f = j->d->kernels;
	int out = j->f->out;
	int64_t tiles = pn_ceil(outputs, f->rows), least = outputs / tiles, taller = outputs % tiles;
	const float *at[MOST_RUNS];
	for (int p = w.first; p < w.last; p++) {
		int col = p * 2 * f->lanes, width = panel_width(f, out - col), cols = (int)pn_min(width, out - col);
		const float *b = j->f->weights + ((size_t)w.group * padded(out, f->lanes / 2) + col) * j->depth + (size_t)from * j->f->in * width;
		const float *init = first_sums(j) ? first_sums(j) + w.group * out + col : NULL;
		for (int64_t t = 0, row = 0, height; t < tiles; t++, row += height) {
			height = least + (t < taller);
			float *c = dst + row * ldc + col;
			pn_ending e;
			if (ending) {
				e = *ending;
				e.scale += e.scale ? col : 0;
				e.shift += e.shift ? col : 0;
				e.add += e.add ? row * e.add_row + col : 0;
				e.times += e.times ? row * e.times_row + col : 0;
				e.after += e.after ? row * e.after_row + col : 0;
			}
			for (int i = 0; i < runs; i++)
				at[i] = a[i] + (a[i] == j->zeros ? 0 : row * lda);
			f->tile((int)height, cols, runs, k, at, lda, b, width, c, ldc, from ? c : init, ending ? &e : NULL);
			if (ending && e.silu)
				f->silu(c, ldc, height, (size_t)cols, e.after, e.after_row);
		}
	}
}

// operand_at is where the program's operand of a number has what outputs further along an axis than `at` need, `row` apart,
// from a channel on; NULL for the number 0.
static const float *operand_at(const job *j, int number, int image, const int64_t *at, int axis, int channel, ptrdiff_t *row)
{
	if (!number)
		return NULL;
	const pn_image *o = &j->operands[number - 1];
	*row = o->axis[axis];
	return o->at + image * o->image + at[0] * o->axis[0] + at[1] * o->axis[1] + at[2] * o->axis[2] + channel;
}

// ending is that of outputs further along an axis than `at`, or NULL; it is kept in e.
static const pn_ending *ending(const job *j, part w, int image, const int64_t *at, int axis, pn_ending *e)
{
	int channel = w.group * j->f->out, first = j->then ? j->then->first : 0;
	if (!j->ends && !j->c->scale && !first)
		return NULL;
	*e = (pn_ending){0};
	if (j->c->scale) {
		e->scale = j->c->scale + channel;
		e->shift = j->c->shift + channel;
	} else if (first) {
		e->shift = j->operands[first - 1].at + channel;
	}
	if (!j->ends)
		return e;
	e->silu = j->then->silu;
	e->low = j->then->low;
	e->high = j->then->high;
	e->holds = e->low > -__builtin_inff() || e->high < __builtin_inff();
	if (e->silu)
		e->after = operand_at(j, j->then->addend, image, at, axis, channel, &e->after_row);
	else
		e->add = operand_at(j, j->then->addend, image, at, axis, channel, &e->add_row);
	e->times = operand_at(j, j->then->factor, image, at, axis, channel, &e->times_row);
	return e;
}

// finish runs the program, if there is one that is no ending, on computed outputs of a line.
static void finish(const job *j, int image, int64_t line, int64_t p, int64_t positions, int channel, int channels, float *dst, float *room)
{
	if (!j->then || j->ends)
		return;
	pn_matrix v[PN_MAX_OPERANDS];
	int64_t at[3];
	position(j, line, p, at);
	v[0] = (pn_matrix){dst, j->c->axis[2].dst, 1};
	for (int i = 1; i < j->then->operands + j->then->results; i++) {
		const pn_image *o = &j->operands[i - 1];
		v[i] = i == j->then->first ? v[0] : (pn_matrix){o->at + image * o->image + at[0] * o->axis[0] + at[1] * o->axis[1] + at[2] * o->axis[2] + channel * o->channel, o->axis[2], o->channel};
	}
	pn_execute(j->d->kernels, j->then, v[0], v, positions, channels, room);
}

// gathered computes outputs of which each is at `at`, further along an axis by its number, and ldc behind the last.
static void gathered(const job *j, part w, int image, const float *src, const int64_t *at, int axis, int64_t outputs, float *dst, ptrdiff_t ldc, float *scratch)
{
	pn_ending e;
	const pn_ending *last = ending(j, w, image, at, axis, &e);
	const pn_axis *a = j->c->axis;
	int taps = (int)taps_of(j->f), from = 0;
	do {
		int to = (int)pn_min(taps, from + j->chunk);
		int64_t place[3] = {at[0], at[1], at[2]};
		for (int64_t i = 0; i < outputs; i++) {
			j->d->kernels->gather(scratch + i * j->lda, a, place, src, (size_t)j->f->in, from, to);
			place[axis]++;
			for (int k = axis; k > 0 && place[k] == a[k].out; k--) {
				place[k] = 0;
				place[k - 1]++;
			}
		}
		const float *row = scratch;
		multiply(j, w, 1, (size_t)(to - from) * j->f->in, &row, j->lda, outputs, from, dst, ldc, to == taps ? last : NULL);
		from = to;
	} while (from < taps);
}

// decode divides a task's number: panels, then blocks, lines, groups and images.
static part decode(const job *j, int task, int64_t *block, int64_t *line, int *image)
{
	int groups = (int)pn_ceil(j->panels, j->group_panels), first = task % groups * j->group_panels;
	int64_t rest = task / groups;
	*block = rest % j->blocks;
	rest /= j->blocks;
	*line = rest % j->lines;
	rest /= j->lines;
	*image = (int)(rest / j->f->groups);
	return (part){(int)(rest % j->f->groups), first, (int)pn_min(j->panels, first + j->group_panels)};
}

// end runs the program on the channels of a part.
static void end(const job *j, part w, int image, int64_t line, int64_t p, int64_t positions, float *dst, float *scratch)
{
	int channel = w.first * 2 * j->d->kernels->lanes, channels = (int)pn_min(j->f->out, w.last * 2 * j->d->kernels->lanes) - channel;
	finish(j, image, line, p, positions, w.group * j->f->out + channel, channels, dst + channel, scratch + (PN_SCRATCH_BYTES - PN_PROGRAM_BYTES) / sizeof *scratch);
}

// line_task computes a block of positions of a line.
static void line_task(void *arg, int task, int thread)
{
	const job *j = arg;
	const pn_axis *a = j->c->axis;
	int64_t block, line, at[3];
	int image;
	part w = decode(j, task, &block, &line, &image);
	int64_t p = block * j->block, positions = pn_min(j->block, j->length - p);
	float *scratch = j->d->threads.scratch(j->d->threads.pool, thread);
	const float *src = j->c->src + image * j->c->src_image + w.group * j->f->in;
	position(j, line, p, at);
	float *dst = j->c->dst + image * j->c->dst_image + w.group * j->f->out + at[0] * a[0].dst + at[1] * a[1].dst + at[2] * a[2].dst;
	pn_ending e;
	if (j->direct) {
		for (int i = 0; i < 3; i++)
			src += (a[i].base + at[i] * a[i].step) * a[i].src;
		multiply(j, w, 1, (size_t)j->f->in, &src, a[2].step * a[2].src, positions, 0, dst, a[2].dst, ending(j, w, image, at, 2, &e));
	} else {
		gathered(j, w, image, src, at, 2, positions, dst, a[2].dst, scratch);
	}
	end(j, w, image, line, p, positions, dst, scratch);
}

// inner_line computes the outputs of a line of which all taps along the last axis are in the input: their inputs
// are runs where they lie, or zeros.
static void inner_line(const job *j, part w, int image, const float *src, const int64_t *at, float *dst)
{
	const pn_axis *a = j->c->axis;
	const float *run[MOST_RUNS];
	int inside[2][2], runs = 0, along = a[2].taps / j->run_taps;
	int64_t place[2];
	pn_ending e;
	for (int i = 0; i < 2; i++)
		place[i] = pn_inside(&a[i], at[i], &inside[i][0], &inside[i][1]);
	src += (a[2].base + (int64_t)j->inner[0] * a[2].step) * a[2].src;
	for (int z = 0; z < a[0].taps; z++)
		for (int y = 0; y < a[1].taps; y++)
			for (int x = 0; x < along; x++) {
				int is = z >= inside[0][0] && z < inside[0][1] && y >= inside[1][0] && y < inside[1][1];
				run[runs++] = !is ? j->zeros : src + (place[0] + (int64_t)z * a[0].dilation) * a[0].src + (place[1] + (int64_t)y * a[1].dilation) * a[1].src + (int64_t)x * a[2].dilation * a[2].src;
			}
	multiply(j, w, runs, (size_t)j->run_taps * j->f->in, run, a[2].step * a[2].src, j->inner[1] - j->inner[0], 0, dst + j->inner[0] * a[2].dst, a[2].dst,
	         ending(j, w, image, (int64_t[]){at[0], at[1], j->inner[0]}, 2, &e));
}

// window_task computes a block of neighbouring lines: the outputs at their ends by columns, the others where their inputs
// lie.
static void window_task(void *arg, int task, int thread)
{
	const job *j = arg;
	const pn_axis *a = j->c->axis;
	int64_t block, z;
	int image;
	part w = decode(j, task, &block, &z, &image);
	int64_t y = block * j->block, lines = pn_min(j->block, a[1].out - y);
	float *scratch = j->d->threads.scratch(j->d->threads.pool, thread);
	const float *src = j->c->src + image * j->c->src_image + w.group * j->f->in;
	float *dst = j->c->dst + image * j->c->dst_image + w.group * j->f->out + z * a[0].dst + y * a[1].dst;
	for (int x = 0; x < a[2].out; x = x == j->inner[0] - 1 ? j->inner[1] : x + 1)
		if (x < j->inner[0] || x >= j->inner[1])
			gathered(j, w, image, src, (int64_t[]){z, y, x}, 1, lines, dst + x * a[2].dst, a[1].dst, scratch);
	for (int64_t i = 0; i < lines; i++, dst += a[1].dst) {
		inner_line(j, w, image, src, (int64_t[]){z, y + i, 0}, dst);
		end(j, w, image, z * a[1].out + y + i, 0, a[2].out, dst, scratch);
	}
}

// windows tells whether inputs are taken where they lie although a kernel covers several, and sets how.
static int windows(job *j)
{
	const pn_axis *a = j->c->axis;
	ptrdiff_t lda = a[2].step * a[2].src;
	int from, to;
	j->run_taps = a[2].dilation * a[2].src == j->f->in ? a[2].taps : 1;
	if (a[0].taps * a[1].taps * (a[2].taps / j->run_taps) > MOST_RUNS || j->f->out > 8 * j->d->kernels->lanes || lda % 1024 == 0)
		return 0;
	j->inner[0] = 0;
	j->inner[1] = a[2].out;
	while (j->inner[0] < j->inner[1] && (pn_inside(&a[2], j->inner[0], &from, &to), to - from < a[2].taps))
		j->inner[0]++;
	while (j->inner[0] < j->inner[1] && (pn_inside(&a[2], j->inner[1] - 1, &from, &to), to - from < a[2].taps))
		j->inner[1]--;
	return j->inner[1] - j->inner[0] >= 2 * j->d->kernels->rows &&
	       lda * j->d->kernels->rows + j->run_taps * j->f->in <= (ptrdiff_t)(sizeof zeros / sizeof *zeros);
}

// cut_windows makes tasks of a few lines, and returns how many there are.
static int cut_windows(job *j)
{
	const pn_axis *a = j->c->axis;
	int64_t images = (int64_t)j->c->images * j->f->groups;
	j->length = a[2].out;
	j->lines = a[0].out;
	int64_t wanted = pn_ceil(2 * TASKS_PER_THREAD * j->d->threads.count, images * j->lines);
	j->block = pn_max(1, pn_min(j->d->kernels->rows, a[1].out / wanted));
	j->blocks = pn_ceil(a[1].out, j->block);
	j->group_panels = j->panels;
	return (int)(images * j->lines * j->blocks);
}

// cut_lines makes tasks of parts of lines, and returns how many there are.
static int cut_lines(job *j)
{
	const pn_kernels *k = j->d->kernels;
	const pn_axis *a = j->c->axis;
	int threads = j->d->threads.count;
	int64_t images = (int64_t)j->c->images * j->f->groups;
	// Rows a multiple of 4 KiB apart would fall on the same lines of the first-level cache.
	ptrdiff_t lda = a[2].step * a[2].src;
	if (lda % 1024 == 0 || (!all_even(j) && a[2].out < k->rows / 2))
		j->direct = 0;
	int one = all_even(j);
	j->length = one ? (int64_t)a[0].out * a[1].out * a[2].out : a[2].out;
	j->lines = one ? 1 : (int64_t)a[0].out * a[1].out;
	int64_t row_bytes = (j->direct ? j->f->in : j->lda) * (int64_t)sizeof(float);
	int64_t most = pn_max(1, BLOCK_BYTES / row_bytes / k->rows), tiles = pn_ceil(j->length, k->rows);
	int64_t wanted = pn_ceil((int64_t)threads * TASKS_PER_THREAD, images * j->lines);
	int64_t blocks = pn_max(pn_ceil(tiles, most), pn_min(wanted, pn_ceil(tiles, 2)));
	j->block = pn_ceil(pn_ceil(j->length, blocks), k->rows) * k->rows;
	j->blocks = pn_ceil(j->length, j->block);
	int64_t found = images * j->lines * j->blocks;
	int64_t groups = threads == 1 ? 1 : pn_min(j->panels, pn_ceil((int64_t)threads * 2, found));
	j->group_panels = (int)pn_ceil(j->panels, groups);
	return (int)(found * pn_ceil(j->panels, j->group_panels));
}

static void dense(job *j, double work)
{
	j->depth = taps_of(j->f) * (size_t)j->f->in;
	j->panels = (int)pn_ceil(j->f->out, 2 * j->d->kernels->lanes);
	j->chunk = (int)pn_max(1, GATHERED / j->f->in);
	j->lda = (ptrdiff_t)pn_min(j->chunk, (int64_t)taps_of(j->f)) * j->f->in;
	j->lda += 16 - j->lda % 16 + (j->lda / 16 % 4 == 3 ? 16 : 0); // no multiple of 4 KiB
	j->zeros = zeros;
	j->direct = all_inside(j->c->axis);
	if (!j->direct && windows(j))
		pn_run_flushing(j->d, window_task, j, cut_windows(j), work);
	else
		pn_run_flushing(j->d, line_task, j, cut_lines(j), work);
}

static void depthwise_task(void *arg, int task, int thread)
{
	const job *j = arg;
	const pn_axis *a = j->c->axis;
	const pn_kernels *k = j->d->kernels;
	int64_t block = task % j->blocks, image = task / j->blocks;
	int64_t rows = (int64_t)a[0].out * a[1].out;
	for (int64_t r = block * j->block; r < pn_min(rows, (block + 1) * j->block); r++) {
		int64_t z = r / a[1].out, y = r % a[1].out;
		pn_ending e;
		const pn_ending *last = ending(j, (part){0}, (int)image, (int64_t[]){z, y, 0}, 2, &e);
		pn_strip s = {.axis = a, .x1 = a[2].out, .channels = j->f->groups, .src = j->c->src + image * j->c->src_image};
		s.place[0] = pn_inside(&a[0], z, &s.from[0], &s.to[0]);
		s.place[1] = pn_inside(&a[1], y, &s.from[1], &s.to[1]);
		s.dst = j->c->dst + image * j->c->dst_image + z * a[0].dst + y * a[1].dst;
		k->depthwise(&s, j->f->weights, j->f->kernel, (size_t)padded(j->f->groups, k->lanes), first_sums(j), last);
		if (last && e.silu)
			k->silu(s.dst, a[2].dst, a[2].out, (size_t)j->f->groups, e.after, e.after_row);
		finish(j, (int)image, r, 0, a[2].out, 0, j->f->groups, s.dst, j->d->threads.scratch(j->d->threads.pool, thread));
	}
}

static void run(job *j)
{
	const pn_axis *a = j->c->axis;
	double outputs = (double)j->c->images * a[0].out * a[1].out * a[2].out * j->f->groups * j->f->out;
	if (outputs == 0)
		return;
	double work = outputs * (0.03 * (double)a[0].taps * a[1].taps * a[2].taps * j->f->in + (j->then ? j->then->work : 0));
	if (!j->f->depthwise) {
		dense(j, work);
		return;
	}
	j->lines = (int64_t)a[0].out * a[1].out;
	j->length = a[2].out;
	j->blocks = pn_min(j->lines, pn_ceil(j->d->threads.count * TASKS_PER_THREAD, j->c->images));
	j->block = pn_ceil(j->lines, j->blocks);
	j->blocks = pn_ceil(j->lines, j->block);
	pn_run_flushing(j->d, depthwise_task, j, (int)(j->c->images * j->blocks), work);
}

// is_row tells whether an operand is one row for all outputs.
static int is_row(const pn_convolution *c, const pn_image *o)
{
	int is = o->channel == 1 && (c->images == 1 || !o->image);
	for (int i = 0; i < 3; i++)
		is &= c->axis[i].out == 1 || !o->axis[i];
	return is;
}

void pn_convolve(const pn_device *d, const pn_convolution *c, const pn_filter *f, const pn_instruction *code,
                 int instructions, const pn_image *operands, int count, const int64_t *also, int results)
{
	job j = {.d = d, .c = c, .f = f, .then = code ? d->program : NULL, .operands = operands};
	if (code) {
		uint32_t rows = 0; // operands that are added while sums are in registers
		for (int i = 0; i < count && !c->scale; i++)
			rows |= (uint32_t)is_row(c, &operands[i]) << (i + 1);
		pn_prepare(d->program, code, instructions, count + 1, also, results, rows);
		int addend = d->program->addend, factor = d->program->factor, takes = !f->depthwise || d->program->silu;
		j.ends = d->program->ends && (!addend || (takes && operands[addend - 1].channel == 1)) && (!factor || (takes && operands[factor - 1].channel == 1));
	}
	run(&j);
}

// exchange is the packing of a filter's weights for the other direction, of the taps that c's axes name.
typedef struct exchange {
	const pn_kernels *k;
	const pn_convolution *c;
	const pn_filter *f, *to;
	int panels; // of a group of `to`
} exchange;

static void exchange_task(void *arg, int task, int thread)
{
	(void)thread;
	const exchange *e = arg;
	const pn_axis *a = e->c->axis;
	int group = task / e->panels, col = task % e->panels * 2 * e->k->lanes;
	int width = panel_width(e->k, e->to->out - col), cols = (int)pn_min(width, e->to->out - col);
	float *d = packed(e->k, e->to, group, 0, 0, col);
	for (int z = 0; z < a[0].taps; z++)
		for (int y = 0; y < a[1].taps; y++)
			for (int x = 0; x < a[2].taps; x++) {
				size_t tap = ((size_t)(a[0].weight + z * a[0].weight_step) * e->f->kernel[1] + a[1].weight + y * a[1].weight_step) * e->f->kernel[2] +
				             a[2].weight + x * a[2].weight_step;
				for (int i = 0; i < e->to->in; i++, d += width) {
					const float *s = packed(e->k, e->f, group, tap, col, i);
					int step = panel_width(e->k, e->f->out - i / (2 * e->k->lanes) * 2 * e->k->lanes);
					for (int o = 0; o < width; o++)
						d[o] = o < cols ? s[o * step] : 0;
				}
			}
}

int pn_convolve_backward(const pn_device *d, const pn_convolution *c, const pn_filter *f)
{
	const pn_axis *a = c->axis;
	pn_filter to = *f;
	if (!f->depthwise) {
		to.in = f->out;
		to.out = f->in;
		for (int i = 0; i < 3; i++)
			to.kernel[i] = a[i].taps;
		size_t floats = pn_filter_floats(d, &to);
		to.weights = d->threads.shared(d->threads.pool, (floats + 1) * sizeof(float));
		if (!to.weights)
			return -1;
		exchange e = {d->kernels, c, f, &to, (int)pn_ceil(to.out, 2 * d->kernels->lanes)};
		pn_run(d, exchange_task, &e, f->groups * e.panels, (double)floats);
	}
	job j = {.d = d, .c = c, .f = &to};
	run(&j);
	return 0;
}
