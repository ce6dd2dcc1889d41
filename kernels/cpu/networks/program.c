//go:build cgo && linux && amd64

// Element-wise programs: made ready once for a call, and run on blocks of elements, an instruction after the other.

#include "internal.h"

#include <stdlib.h>
#include <string.h>

// A rough price of operations, in nanoseconds an element.
static double price(pn_op op)
{
	switch (op) {
	case PN_POW:
	case PN_SIN:
	case PN_COS:
		return 10;
	case PN_DIV:
	case PN_SQRT:
	case PN_EXP:
	case PN_LOG:
	case PN_TANH:
	case PN_SIGMOID:
	case PN_ERF:
	case PN_SILU:
	case PN_SILU_SLOPE:
		return 0.6;
	default:
		return 0.1;
	}
}

static const int arguments[PN_OPS] = {
	[PN_COPY] = 1, [PN_ADD] = 2, [PN_SUB] = 2, [PN_MUL] = 2, [PN_DIV] = 2, [PN_MIN] = 2, [PN_MAX] = 2, [PN_POW] = 2,
	[PN_LESS] = 2, [PN_LESS_EQUAL] = 2, [PN_EQUAL] = 2, [PN_SELECT] = 3, [PN_NEG] = 1, [PN_ABS] = 1, [PN_SQRT] = 1,
	[PN_EXP] = 1, [PN_LOG] = 1, [PN_SIN] = 1, [PN_COS] = 1, [PN_TANH] = 1, [PN_SIGMOID] = 1, [PN_ERF] = 1,
	[PN_FLOOR] = 1, [PN_CEIL] = 1, [PN_ROUND] = 1, [PN_HALF] = 1, [PN_BRAIN] = 1, [PN_SILU] = 1,
	[PN_SILU_SLOPE] = 1,
};

// given is the step whose result register r is, if that is this operation, or NULL.
static const pn_step *given(const pn_step *step, int r, int operands, pn_op op)
{
	return r >= operands && step[r - operands].op == op ? step + r - operands : NULL;
}

// is_one tells whether register r is the constant 1.
static int is_one(const pn_step *step, int r, int operands)
{
	const pn_step *s = given(step, r, operands, PN_CONSTANT);
	return s && s->x == 1;
}

// silu_slope is the x of (1 + x * (1 - sigmoid(x))) * sigmoid(x), where s is that product, or -1. The order of factors and
// terms does not matter to the bits.
static int silu_slope(const pn_step *step, const pn_step *s, int operands)
{
	for (int i = 0; i < 8; i++) { // the order of each
		const pn_step *by = given(step, s->in[i & 1], operands, PN_SIGMOID), *sum = given(step, s->in[!(i & 1)], operands, PN_ADD);
		const pn_step *product = by && sum ? given(step, sum->in[i >> 1 & 1], operands, PN_MUL) : NULL;
		const pn_step *rest = product ? given(step, product->in[i >> 2 & 1], operands, PN_SUB) : NULL;
		if (rest && is_one(step, sum->in[!(i >> 1 & 1)], operands) && is_one(step, rest->in[0], operands) && rest->in[1] == s->in[i & 1] &&
		    product->in[!(i >> 2 & 1)] == by->in[0])
			return by->in[0];
	}
	return -1;
}

// simplify makes x * sigmoid(x) one operation, and its derivative, and a square a product: all of which keep the bits.
static void simplify(pn_step *step, int i, int operands)
{
	pn_step *s = step + i;
	int x = s->op == PN_MUL ? silu_slope(step, s, operands) : -1;
	if (x >= 0)
		*s = (pn_step){.op = PN_SILU_SLOPE, .in = {x}};
	for (int side = 0; s->op == PN_MUL && side < 2; side++) {
		int by = s->in[side] - operands;
		if (by >= 0 && step[by].op == PN_SIGMOID && step[by].in[0] == s->in[1 - side])
			*s = (pn_step){.op = PN_SILU, .in = {s->in[1 - side]}};
	}
	if (s->op == PN_POW && s->in[1] >= operands && step[s->in[1] - operands].op == PN_CONSTANT && step[s->in[1] - operands].x == 2)
		*s = (pn_step){.op = PN_MUL, .in = {s->in[0], s->in[0]}};
}

// keep writes step s, with places for registers, behind the others of p.
static void keep(pn_program *p, const pn_step *s, int dst)
{
	pn_step *to = p->step + p->steps++;
	*to = *s;
	to->dst = dst;
	for (int j = 0; j < 3; j++)
		to->in[j] = j < arguments[s->op] ? p->place[s->in[j]] : 0;
	p->work += price(s->op);
}

// find_last sets last[r] to one more than the number of the last step that reads register r, and to 0 where none does.
static void find_last(pn_program *p, int n, int operands)
{
	memset(p->last, 0, (size_t)(operands + n) * sizeof *p->last);
	p->last[operands + n - 1] = n + 1;
	for (int i = 0; i < p->results; i++)
		p->last[p->result[i]] = n + 1;
	for (int i = n - 1; i >= 0; i--)
		for (int j = 0; p->last[operands + i] && j < arguments[p->given[i].op]; j++)
			if (!p->last[p->given[i].in[j]])
				p->last[p->given[i].in[j]] = i + 1;
}

// release makes the places of registers that step i is the last to read spare, and returns how many are.
static int release(pn_program *p, int i, int operands, int spares)
{
	const pn_step *s = p->given + i;
	for (int j = 0; j < arguments[s->op]; j++) {
		int r = s->in[j], seen = (j > 0 && r == s->in[0]) || (j > 1 && r == s->in[1]);
		if (r >= operands && p->last[r] == i + 1 && p->given[r - operands].op != PN_CONSTANT && !seen)
			p->spare[spares++] = p->place[r];
	}
	return spares;
}

// bound takes step i for one that holds register x, if it is, and returns its result.
static int bound(const pn_program *p, int *i, pn_op op, int x, float *by)
{
	const pn_step *s = p->step + *i;
	for (int side = 0; *i < p->steps && s->op == op && side < 2; side++)
		for (int c = 0; c < p->constants && s->in[side] == x; c++)
			if (p->step[c].dst == s->in[1 - side] && p->step[c].x == p->step[c].x) {
				*by = p->step[c].x;
				++*i;
				return s->dst;
			}
	return x;
}

// with_operand takes step i for one with register x and an operand, if it is, and returns its result.
static int with_operand(const pn_program *p, int *i, pn_op op, int x, int *operand)
{
	const pn_step *s = p->step + *i;
	for (int side = 0; *i < p->steps && s->op == op && side < 2; side++)
		if (s->in[side] == x && s->in[1 - side] > 0 && s->in[1 - side] < p->operands) {
			*operand = s->in[1 - side];
			++*i;
			return s->dst;
		}
	return x;
}

// find_both tells whether a program is SiLU, with its slope as another result.
static void find_both(pn_program *p)
{
	const pn_step *slope = p->step, *silu = slope + 1;
	p->both = p->steps == 2 && p->results == 1 && slope->op == PN_SILU_SLOPE && silu->op == PN_SILU && slope->in[0] == silu->in[0] &&
	          silu->in[0] < p->operands && p->straight[0] && p->result[0] == slope->dst;
}

// find_ending tells whether a program is one.
static void find_ending(pn_program *p)
{
	int i = p->constants, x = 0;
	p->addend = p->factor = 0;
	p->low = -__builtin_inff();
	p->high = __builtin_inff();
	p->silu = i < p->steps && p->step[i].op == PN_SILU && p->step[i].in[0] == 0;
	if (p->silu) {
		x = p->step[i++].dst;
		with_operand(p, &i, PN_ADD, x, &p->addend);
	} else {
		x = with_operand(p, &i, PN_ADD, x, &p->addend);
		x = with_operand(p, &i, PN_MUL, x, &p->factor);
		x = bound(p, &i, PN_MAX, x, &p->low);
		bound(p, &i, PN_MIN, x, &p->high);
	}
	p->ends = p->operands > 0 && p->results == 0 && i == p->steps && i > p->constants;
}

// reads tells whether a step but one reads a register, or it is a result.
static int reads(const pn_program *p, int n, int but, int r, const int64_t *also)
{
	int is = 0;
	for (int i = 0; i < n; i++)
		for (int j = 0; i != but && j < arguments[p->given[i].op]; j++)
			is |= p->given[i].in[j] == r;
	for (int i = 0; i < p->results; i++)
		is |= also[i] == r;
	return is;
}

// find_first finds the step that adds one of the operands `rows` to operand 0, if nothing else reads either: what read the sum
// reads operand 0 then.
static void find_first(pn_program *p, int n, int operands, const int64_t *also, uint32_t rows)
{
	p->first = 0;
	for (int i = 0; rows && i < n - 1; i++) {
		const pn_step *s = p->given + i;
		int row = s->in[0] + s->in[1];
		if (s->op != PN_ADD || (s->in[0] && s->in[1]) || row < 1 || row >= operands || !(rows >> row & 1) || reads(p, n, i, 0, also) ||
		    reads(p, n, i, row, also) || reads(p, 0, i, operands + i, also))
			continue;
		for (int k = i + 1; k < n; k++)
			for (int j = 0; j < arguments[p->given[k].op]; j++)
				if (p->given[k].in[j] == operands + i)
					p->given[k].in[j] = 0;
		p->first = row;
		return;
	}
}

void pn_prepare(pn_program *p, const pn_instruction *code, int n, int operands, const int64_t *also, int results, uint32_t rows)
{
	int spares = 0;
	p->operands = operands;
	p->results = results;
	for (int i = 0; i < results; i++)
		p->result[i] = (int)also[i];
	p->steps = p->registers = 0;
	p->work = 0;
	for (int i = 0; i < n; i++) {
		p->given[i] = (pn_step){.op = (pn_op)code[i].op, .in = {(int)code[i].a, (int)code[i].b, (int)code[i].c}, .x = code[i].x};
		simplify(p->given, i, operands);
	}
	find_first(p, n, operands, also, rows);
	find_last(p, n, operands);
	for (int i = 0; i < operands; i++)
		p->place[i] = i;
	for (int i = 0; i < n; i++)
		if (p->last[operands + i] && p->given[i].op == PN_CONSTANT) {
			p->place[operands + i] = operands + p->registers++;
			keep(p, p->given + i, p->place[operands + i]);
		}
	p->constants = p->steps;
	for (int i = 0; i < n; i++) {
		if (!p->last[operands + i] || p->given[i].op == PN_CONSTANT)
			continue;
		spares = release(p, i, operands, spares);
		p->place[operands + i] = spares ? p->spare[--spares] : operands + p->registers++;
		keep(p, p->given + i, p->place[operands + i]);
	}
	for (int i = 0; i < results; i++) {
		int r = (int)also[i];
		p->result[i] = p->place[r];
		p->straight[i] = r >= operands && r < operands + n - 1 && p->given[r - operands].op != PN_CONSTANT;
		for (int j = 0; j < i; j++)
			p->straight[i] &= also[j] != also[i];
	}
	find_ending(p);
	find_both(p);
}

pn_program *pn_program_new(void) { return malloc(sizeof(pn_program)); }

// gather copies rows x cols elements of m to d, densely.
static void gather(const pn_kernels *k, float *d, pn_matrix m, int64_t rows, int64_t cols)
{
	if (m.col == 1) {
		for (int64_t i = 0; i < rows; i++)
			k->copy(d + i * cols, m.at + i * m.row, (size_t)cols);
		return;
	}
	if (m.col == 0) {
		for (int64_t i = 0; i < rows; i++)
			k->fill(d + i * cols, m.at[i * m.row], (size_t)cols);
		return;
	}
	if (rows > cols) {
		for (int64_t j = 0; j < cols; j++)
			for (int64_t i = 0; i < rows; i++)
				d[i * cols + j] = m.at[i * m.row + j * m.col];
		return;
	}
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j++)
			d[i * cols + j] = m.at[i * m.row + j * m.col];
}

static void scatter(const pn_kernels *k, pn_matrix m, const float *s, int64_t rows, int64_t cols)
{
	for (int64_t i = 0; i < rows; i++)
		if (m.col == 1)
			k->copy(m.at + i * m.row, s + i * cols, (size_t)cols);
		else
			for (int64_t j = 0; j < cols; j++)
				m.at[i * m.row + j * m.col] = s[i * cols + j];
}

// move copies rows x cols elements, between views of any strides; in blocks where either goes down columns, so that lines
// of the cache are used whole.
static void move(const pn_kernels *k, pn_matrix dst, pn_matrix src, int64_t rows, int64_t cols)
{
	enum { SIDE = 16 };
	if (dst.col == 1 && src.col == 1 && cols >= SIDE) {
		for (int64_t i = 0; i < rows; i++)
			k->copy(dst.at + i * dst.row, src.at + i * src.row, (size_t)cols);
		return;
	}
	if (dst.col == 1 && src.col == 2 && cols >= SIDE) {
		for (int64_t i = 0; i < rows; i++)
			k->every_second(dst.at + i * dst.row, src.at + i * src.row, (size_t)cols);
		return;
	}
	if (dst.col == 1 && (src.row == 1 || src.row == 2) && cols >= 2 && cols <= 4) {
		k->interleave(dst.at, dst.row, src.at, src.row, src.col, (int)cols, rows);
		return;
	}
	for (int64_t from = 0; from < cols; from += SIDE) {
		int64_t n = pn_min(SIDE, cols - from);
		float *d = dst.at + from * dst.col;
		const float *s = src.at + from * src.col;
		if (n < SIDE && rows > n) {
			for (int64_t j = 0; j < n; j++)
				for (int64_t i = 0; i < rows; i++)
					d[i * dst.row + j * dst.col] = s[i * src.row + j * src.col];
			continue;
		}
		for (int64_t i = 0; i < rows; i++, d += dst.row, s += src.row)
			for (int64_t j = 0; j < n; j++)
				d[j * dst.col] = s[j * src.col];
	}
}

static int dense(pn_matrix m, int64_t rows, int64_t cols) { return m.col == 1 && (rows == 1 || m.row == cols); }

// fixed tells whether all blocks of m are the same: of so many rows, of which a block has `height`, and whole ones or not.
static int fixed(pn_matrix m, int64_t rows, int64_t height, int whole)
{
	return (m.col == 0 && (m.row == 0 || rows == 1)) || (m.row == 0 && height > 1 && whole);
}

static pn_matrix moved(pn_matrix m, int64_t i, int64_t j)
{
	m.at += i * m.row + j * m.col;
	return m;
}

// flatten makes one row of rows that all views continue.
static void flatten(pn_matrix dst, const pn_matrix *operands, int count, int64_t *rows, int64_t *cols)
{
	int one = *rows == 1 || dst.row == dst.col * *cols;
	for (int i = 0; i < count; i++)
		one &= *rows == 1 || operands[i].row == operands[i].col * *cols;
	if (one) {
		*cols *= *rows;
		*rows = 1;
	}
}

// block runs p on rows x cols elements; place are the operands and then the registers. After dst come p's results.
static void block(const pn_kernels *k, const pn_program *p, const pn_matrix *to_result, float **place, int64_t rows, int64_t cols)
{
	size_t n = (size_t)(rows * cols);
	pn_matrix dst = to_result[0];
	int last = p->step[p->steps - 1].dst;
	if (p->both && dense(dst, rows, cols) && dense(to_result[1], rows, cols)) {
		k->silu_both(dst.at, to_result[1].at, place[p->step[0].in[0]], n);
		return;
	}
	for (int i = 0; i < p->results; i++)
		if (p->result[i] < p->operands) // dst may be over it
			scatter(k, to_result[1 + i], place[p->result[i]], rows, cols);
	for (int i = p->constants; i < p->steps; i++) {
		const pn_step *s = p->step + i;
		int ends = i == p->steps - 1 && dense(dst, rows, cols);
		k->element[s->op](ends ? dst.at : place[s->dst], place[s->in[0]], place[s->in[1]], place[s->in[2]], n);
	}
	if (!dense(dst, rows, cols))
		scatter(k, dst, place[last], rows, cols);
	else if (p->steps == p->constants)
		k->copy(dst.at, place[last], n);
	for (int i = 0; i < p->results; i++) {
		pn_matrix m = to_result[1 + i];
		if (p->result[i] == last)
			move(k, m, dst, rows, cols);
		else if (p->result[i] >= p->operands && place[p->result[i]] != m.at)
			scatter(k, m, place[p->result[i]], rows, cols);
	}
}

void pn_execute(const pn_kernels *k, const pn_program *p, pn_matrix dst, const pn_matrix *operands, int64_t rows,
                int64_t cols, float *room)
{
	flatten(dst, operands, p->operands + p->results, &rows, &cols);
	if (p->steps == 1 && p->step[0].op == PN_COPY && p->results == 0) {
		move(k, dst, operands[p->step[0].in[0]], rows, cols);
		return;
	}
	int64_t most = pn_min(PN_BLOCK, (int64_t)(PN_PROGRAM_BYTES / sizeof(float)) / (p->registers + p->operands + 1) / 16 * 16);
	int64_t width = pn_min(cols, most), height = pn_min(rows, most / width);
	float *place[PN_MAX_OPERANDS + PN_MAX_INSTRUCTIONS], *own = room + p->registers * most;
	for (int i = 0; i < p->registers; i++)
		place[p->operands + i] = room + i * most;
	for (int i = 0; i < p->constants; i++)
		k->fill(place[p->step[i].dst], p->step[i].x, (size_t)(width * height));
	for (int i = 0; i < p->operands; i++)
		if (fixed(operands[i], rows, height, width == cols))
			gather(k, place[i] = own + i * most, operands[i], height, width);
	for (int64_t i = 0; i < rows; i += height)
		for (int64_t j = 0; j < cols; j += width) {
			int64_t r = pn_min(height, rows - i), c = pn_min(width, cols - j);
			for (int o = 0; o < p->operands; o++) {
				pn_matrix m = moved(operands[o], i, j);
				if (fixed(operands[o], rows, height, width == cols))
					continue;
				if (dense(m, r, c))
					place[o] = m.at;
				else
					gather(k, place[o] = own + o * most, m, r, c);
			}
			pn_matrix to[1 + PN_MAX_OPERANDS] = {moved(dst, i, j)};
			for (int o = 0; o < p->results; o++) {
				pn_matrix m = to[1 + o] = moved(operands[p->operands + o], i, j);
				if (p->straight[o])
					place[p->result[o]] = dense(m, r, c) ? m.at : room + (p->result[o] - p->operands) * most;
			}
			block(k, p, to, place, r, c);
		}
}

// map is pn_map for all threads. The last two dimensions are matrices; a task is some of them, or a part of one.
typedef struct map {
	const pn_device *d;
	const pn_program *program;
	int dims;
	const int64_t *shape;
	const pn_tensor *t;
	int64_t matrices, rows, cols;
	int64_t group, part, parts; // matrices of a task; rows or, where there is one, columns of a part, and parts of a matrix
} map;

static void map_part(const map *m, const int64_t *place, int64_t from, float *room)
{
	pn_matrix v[PN_MAX_OPERANDS + 1];
	for (int i = 0; i <= m->program->operands; i++) {
		v[i] = (pn_matrix){m->t[i].at, m->dims > 1 ? m->t[i].stride[m->dims - 2] : 0, m->t[i].stride[m->dims - 1]};
		for (int k = 0; k < m->dims - 2; k++)
			v[i].at += place[k] * m->t[i].stride[k];
		v[i] = m->rows > 1 ? moved(v[i], from, 0) : moved(v[i], 0, from);
	}
	int64_t rows = m->rows > 1 ? pn_min(m->part, m->rows - from) : 1, cols = m->rows > 1 ? m->cols : pn_min(m->part, m->cols - from);
	pn_execute(m->d->kernels, m->program, v[0], v + 1, rows, cols, room);
}

static void map_task(void *arg, int task, int thread)
{
	const map *m = arg;
	float *room = m->d->threads.scratch(m->d->threads.pool, thread);
	int64_t first = task / m->parts * m->group, last = pn_min(m->matrices, first + m->group);
	int64_t place[PN_MAX_DIMS] = {0}, rest = first;
	for (int k = m->dims - 3; k >= 0; rest /= m->shape[k--])
		place[k] = rest % m->shape[k];
	for (int64_t i = first; i < last; i++) {
		map_part(m, place, task % m->parts * m->part, room);
		for (int k = m->dims - 3; k >= 0 && ++place[k] == m->shape[k]; k--)
			place[k] = 0;
	}
}

void pn_map(const pn_device *d, const pn_instruction *code, int instructions, int operands, int dims,
            const int64_t *shape, const pn_tensor *t)
{
	enum { TASK_ELEMENTS = 16 << 10 };
	map m = {.d = d, .program = d->program, .dims = dims, .shape = shape, .t = t, .matrices = 1, .rows = dims > 1 ? shape[dims - 2] : 1, .cols = shape[dims - 1]};
	pn_prepare(d->program, code, instructions, operands, NULL, 0, 0);
	for (int i = 0; i < dims - 2; i++)
		m.matrices *= shape[i];
	int64_t lines = m.rows > 1 ? m.rows : m.cols;
	m.part = pn_max(1, TASK_ELEMENTS / (m.rows > 1 ? m.cols : 1));
	m.parts = pn_ceil(lines, m.part);
	m.group = m.parts > 1 ? 1 : pn_max(1, TASK_ELEMENTS / (m.rows * m.cols));
	double elements = (double)m.matrices * (double)m.rows * (double)m.cols;
	pn_run(d, map_task, &m, (int)(pn_ceil(m.matrices, m.group) * m.parts), elements * (m.program->work + 0.1 * operands));
}
