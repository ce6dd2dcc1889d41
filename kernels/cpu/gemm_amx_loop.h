// The loop of products with AMX: tiles of 32 rows by panels of 32 columns in four tile registers, or of 16
// rows in two; a step multiplies a part of their depth by 4 instructions of 16 cycles each, 32 columns of bf16 or 64 of int8. A source that includes
// this states PF_LANES and its target first, and defines
//
//   PF_DP      is the instruction: it adds to a tile the products of two
//   EXPANDS    whether a matrix may be of codes that are expanded before they are multiplied; expand then does
//   STEP_PAIRS of columns
//   SUMS_OF_CODES and row_scales  as gemm_amx_ends.h has them
//
// A panel stays while the tiles of a task pass by. Its first steps, as many as the first-level cache holds,
// are loaded so that they stay there; all else is streamed past that cache from the second level, since a step
// that loads all four operands from there takes longer than its products. Meanwhile the weights of the panel
// to come are fetched to the second level, and the product before is ended, two rows a step: vector
// operations that are few beside the products cost nothing.
//
// Where a matrix is too deep for a run of tiles to fit the second-level cache, the depth is walked in
// chunks, some panels in turn, with their sums in memory. Sums are exact there: one chain all the same.

#include "gemm_amx_ends.h"

enum { C_ROW = PF_PANEL * 4, C_TILE = 32 * PF_PANEL }; // bytes, floats

enum {
	PINNED = 16,           // steps of a panel that stay in the first-level cache
	WHOLE = 32,            // steps up to which the depth is walked at once
	DEEP_TILES = 8,        // of a run where it is walked in chunks
	DEEP_PANELS = 14,      // that take turns then
	FEW_TILES = 2,         // of which the sums of one panel fit the first-level cache: panels need not take turns
	CODE_STEPS = 8,        // of a chunk for few tiles: expanded, it fits the first-level cache
	NEAR_BYTES = 32 << 10, // how far ahead of itself a lone tile fetches weights
	RUN_BYTES = 1 << 20,   // of a run's tiles, in the second-level cache
	RUN_TILES = 8,         // that a run has at least, if there are so many: fetching a panel takes about as long
	TASKS_PER_THREAD = 4,  // larger ones keep more in the caches
};

// feed is weights that are fetched to the second-level cache, some lines a step.
typedef struct feed {
	const char *at, *end;
	int lines;
} feed;

INLINE void fetch(feed *f)
{
	if (f->at >= f->end)
		return;
	for (int i = 0; i < f->lines; i++)
		__builtin_prefetch(f->at + 64 * i, 0, 2);
	f->at += 64 * f->lines;
}

INLINE void load_operands(const int tall, const int pinned, const char *a, const char *b)
{
	PF_TILE_STREAM(4, a, A_ROW);
	if (tall)
		PF_TILE_STREAM(5, a + 16 * A_ROW, A_ROW);
	if (pinned) {
		PF_TILE_LOAD(6, b, B_ROW);
		PF_TILE_LOAD(7, b + 64, B_ROW);
	} else {
		PF_TILE_STREAM(6, b, B_ROW);
		PF_TILE_STREAM(7, b + 64, B_ROW);
	}
}

INLINE void products(const int tall)
{
	PF_DP(0, 4, 6);
	PF_DP(1, 4, 7);
	if (tall) {
		PF_DP(2, 5, 6);
		PF_DP(3, 5, 7);
	}
}

// chain adds some steps to the sums. The first operands are loaded; the last products are left.
INLINE void chain(const pf_end end, const int tall, int steps, const char *a, const char *b, feed *weights, feed *rows,
                  ending *before, const ending *coming)
{
	int s = 1;
	for (; s < pf_min(steps, PINNED); s++) {
		fetch(weights);
		fetch(rows);
		products(tall);
		end_rows(end, before, 2);
		touch(end, coming, 2 * s - 2);
		load_operands(tall, 1, a += A_STEP, b += B_STEP);
	}
	for (; s < steps; s++) {
		fetch(weights);
		fetch(rows);
		products(tall);
		end_rows(end, before, 2);
		touch(end, coming, 2 * s - 2);
		load_operands(tall, 0, a += A_STEP, b += B_STEP);
	}
	fetch(weights);
	fetch(rows);
}

INLINE void load_sums(const float *c)
{
	PF_TILE_LOAD(0, c, C_ROW);
	PF_TILE_LOAD(1, c + 16, C_ROW);
	PF_TILE_LOAD(2, c + 16 * PF_PANEL, C_ROW);
	PF_TILE_LOAD(3, c + 16 * PF_PANEL + 16, C_ROW);
}

INLINE void zero_sums(void)
{
	PF_TILE_ZERO(0);
	PF_TILE_ZERO(1);
	PF_TILE_ZERO(2);
	PF_TILE_ZERO(3);
}

INLINE void store_sums(const int tall, float *c)
{
	PF_TILE_STORE(0, c, C_ROW);
	PF_TILE_STORE(1, c + 16, C_ROW);
	if (tall) {
		PF_TILE_STORE(2, c + 16 * PF_PANEL, C_ROW);
		PF_TILE_STORE(3, c + 16 * PF_PANEL + 16, C_ROW);
	}
}

static int expands(const pf_linear *l) { return EXPANDS && l->codes; }

// walk is the way of a task through its pieces: chunks of the depth of a panel.
typedef struct walk {
	const pf_product *g;
	pf_part part;
	int steps, chunk, group; // of the depth, of a piece at most; panels that take turns
	char *room;              // for two pieces that were codes
} walk;

typedef struct piece {
	int first, panel, from; // of the panels that take turns; of its steps
} piece;

// following moves p on, and returns 0 after the last piece.
static int following(const walk *w, piece *p)
{
	if (++p->panel < pf_min(p->first + w->group, w->part.panel1))
		return 1;
	if ((p->from += w->chunk) < w->steps) {
		p->panel = p->first;
		return 1;
	}
	p->from = 0;
	p->first = p->panel;
	return p->panel < w->part.panel1;
}

static int piece_steps(const walk *w, const piece *p) { return pf_min(w->chunk, w->steps - p->from); }

// stored is where a piece's weights are, bf16 or codes, and *bytes how many.
static const char *stored(const walk *w, const piece *p, size_t *bytes)
{
	const pf_linear *l = w->g->l;
	size_t step = expands(l) ? STEP_PAIRS * pf_code_bytes(l) : B_STEP;
	*bytes = piece_steps(w, p) * step;
	return (l->codes ? (const char *)l->codes : (const char *)l->weights) + ((size_t)p->panel * w->steps + p->from) * step;
}

// ready is a piece's weights in bf16; it takes the room by turns.
static const char *ready(const walk *w, const piece *p, int turn)
{
#if EXPANDS
	if (expands(w->g->l)) {
		char *to = w->room + (turn & 1) * (WHOLE * B_STEP);
		expand((pf_bf16 *)to, w->g->l, p->panel, p->from * STEP_PAIRS, piece_steps(w, p) * STEP_PAIRS);
		return to;
	}
#endif
	(void)turn;
	size_t bytes;
	return stored(w, p, &bytes);
}

// feed_of fetches what follows piece p, which is the next one, or the one after it where codes are
// expanded ahead: in the time of the products of `tiles` tiles with `steps` steps. A lone tile fetches a little
// ahead of b, its current piece: it is all that memory has to do then.
static feed feed_of(const walk *w, piece p, int more, int tiles, int steps, const char *b)
{
	size_t bytes;
	if (tiles == 1 && !expands(w->g->l)) {
		b += NEAR_BYTES;
		return (feed){b, b + (size_t)steps * B_STEP, B_STEP / 64};
	}
	if (more && expands(w->g->l))
		more = following(w, &p);
	if (!more) {
		if (w->part.next < 0)
			return (feed){0};
		p = (piece){w->part.next, w->part.next, 0};
	}
	const char *at = stored(w, &p, &bytes);
	return (feed){at, at + bytes, pf_ceil((int)(bytes / 64), tiles * steps)};
}

// feed_of_rows fetches a share of a tile's next chunk, the first step of whose current one is at a: each
// panel that takes turns fetches as much.
static feed feed_of_rows(const walk *w, const piece *p, const char *a)
{
	int left = w->steps - p->from - w->chunk;
	if (left <= 0)
		return (feed){0};
	int panels = pf_min(w->group, w->part.panel1 - p->first);
	int lines = pf_min(w->chunk, left) * (A_STEP / 64), share = pf_ceil(lines, panels);
	int from = pf_min(lines, (p->panel - p->first) * share), to = pf_min(lines, from + share);
	a += (size_t)w->chunk * A_STEP;
	return (feed){a + from * 64, a + to * 64, pf_ceil(share, piece_steps(w, p))};
}

INLINE void multiply_as(const pf_end end, const walk *w, float *sums, float *ring)
{
	const pf_product *g = w->g;
	pf_part part = w->part;
	int tiles = part.tile1 - part.tile0, turn = 0, pieces = 0;
	size_t tile_bytes = pf_tile_bytes(g->ops, g->l->pairs);
	const char *a0 = (const char *)g->a + part.tile0 * tile_bytes;
	piece now = {part.panel0, part.panel0, 0};
	ending before = {0};
	const char *b = ready(w, &now, pieces++);
	load_operands(1, 1, a0, b);
	for (int more = 1; more;) {
		piece next = now;
		more = following(w, &next);
		const char *b_next = more ? ready(w, &next, pieces++) : b;
		int steps = piece_steps(w, &now), last = now.from + steps == w->steps;
		feed weights = feed_of(w, next, more, tiles, steps, b);
		for (int t = 0; t < tiles; t++) {
			const char *a = a0 + t * tile_bytes + (size_t)now.from * A_STEP;
			float *c = sums + ((size_t)(now.panel - now.first) * tiles + t) * C_TILE;
			float *out = last ? ring + (turn ^= 1) * C_TILE : c;
			int tall = pf_tile_height(g->plan, part.tile0 + t) > 16;
			feed rows = feed_of_rows(w, &now, a);
			ending coming = {0};
			if (last)
				coming = ending_of(g, out, part.tile0 + t, now.panel);
			if (now.from == 0)
				zero_sums();
			else
				load_sums(c);
			if (tall)
				chain(end, 1, steps, a, b, &weights, &rows, &before, &coming);
			else
				chain(end, 0, steps, a, b, &weights, &rows, &before, &coming);
			products(tall);
			// The first operands of the next product are loaded while this one's last products run.
			if (t + 1 < tiles)
				load_operands(1, 1, a + tile_bytes, b);
			else
				load_operands(1, 1, a0 + (size_t)(more ? next.from : 0) * A_STEP, b_next);
			end_rows(end, &before, 32);
			store_sums(tall, out);
			if (last)
				before = coming;
		}
		now = next;
		b = b_next;
	}
	end_rows(end, &before, 32);
}

// zero_tail clears the upper half of the last step of packed tiles that an odd number of panels fills.
static void zero_tail(const pf_product *g, pf_part part)
{
	if (g->as_rows || part.panel1 < g->l->panels || part.panel1 % 2 == 0)
		return;
	for (int t = part.tile0; t < part.tile1; t++) {
		char *step = (char *)pf_tile_at(g->ops, g->dst, (int)g->stride, t) + (size_t)(part.panel1 / 2) * A_STEP;
		for (int i = 0; i < 32; i++)
			memset(step + i * A_ROW + A_ROW / 2, 0, A_ROW / 2);
	}
}

static int deep(const pf_linear *l) { return l->pairs / STEP_PAIRS > WHOLE; }

// most_tiles is how many fit the second-level cache, whole or with the sums of the panels that take turns.
static int most_tiles(const pf_linear *l) { return deep(l) ? DEEP_TILES : RUN_BYTES / (l->pairs / STEP_PAIRS * A_STEP); }

// chunk_of is the steps of a piece, about the same for all.
static int chunk_of(const pf_linear *l, int tiles)
{
	int steps = l->pairs / STEP_PAIRS;
	int most = expands(l) && tiles <= FEW_TILES ? CODE_STEPS : deep(l) ? PINNED : WHOLE;
	return pf_ceil(steps, pf_ceil(steps, most));
}

static void multiply(const pf_product *g, pf_part part, void *scratch)
{
	_Alignas(64) float ring[2 * C_TILE];
	char *room = scratch;
	for (int tile1 = part.tile1; part.tile0 < tile1; part.tile0 = part.tile1) {
		part.tile1 = pf_min(tile1, part.tile0 + most_tiles(g->l));
		int tiles = part.tile1 - part.tile0;
		walk w = {g, part, g->l->pairs / STEP_PAIRS, chunk_of(g->l, tiles), tiles <= FEW_TILES ? 1 : DEEP_PANELS, room};
		if (w.chunk == w.steps)
			w.group = 1;
		float *sums = (float *)(room + 2 * WHOLE * B_STEP);
		pf_tiles_begin();
		switch (g->end) {
		case PF_STORE_BF16:
			multiply_as(PF_STORE_BF16, &w, sums, ring);
			break;
		case PF_STORE_F32:
			multiply_as(PF_STORE_F32, &w, sums, ring);
			break;
		case PF_ADD_F32:
			multiply_as(PF_ADD_F32, &w, sums, ring);
			break;
		case PF_SWIGLU:
			multiply_as(PF_SWIGLU, &w, sums, ring);
			zero_tail(g, part);
			break;
		case PF_GEGLU:
			multiply_as(PF_GEGLU, &w, sums, ring);
			zero_tail(g, part);
			break;
		case PF_GELU:
			multiply_as(PF_GELU, &w, sums, ring);
		}
		pf_tiles_end();
	}
}

static void cut(pf_product *g, int threads)
{
	const pf_linear *l = g->l;
	int tiles = g->plan.tiles;
	g->tiles_stay = 1;
	g->runs = pf_ceil(tiles, most_tiles(l));
	g->groups = 1;
	if (threads == 1)
		return;
	int wanted = threads * TASKS_PER_THREAD, most_groups = l->panels;
	if (deep(l) && tiles > FEW_TILES) {
		wanted = threads * 2;
		most_groups = pf_ceil(l->panels, DEEP_PANELS);
	}
	g->groups = pf_min(most_groups, pf_ceil(wanted, g->runs));
	g->runs = pf_max(g->runs, pf_min(pf_ceil(wanted, g->groups), tiles / RUN_TILES));
}
