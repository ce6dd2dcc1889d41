// dot of VNNI as it would be without: what the sources with these instructions are tested by on machines that lack them.

static inline vi dot(vi acc, vi x, vi w)
{
	for (int shift = 0; shift < 32; shift += 8)
		acc += (x >> shift & 255) * (w << (24 - shift) >> 24);
	return acc;
}
