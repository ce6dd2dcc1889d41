package ocr

import "math"

// projection maps the unit square to a quadrangle: x = (a u + b v + c) / w and y = (d u + e v + f) / w with w = g u + h v + 1.
type projection struct{ a, b, c, d, e, f, g, h float64 }

// project is the projection to a quadrangle whose corners are those of (0, 0), (1, 0), (1, 1) and (0, 1).
func project(q quad) projection {
	sum := point{q[0].x - q[1].x + q[2].x - q[3].x, q[0].y - q[1].y + q[2].y - q[3].y}
	one, two := q[1].minus(q[2]), q[3].minus(q[2])
	var m projection
	if area := one.cross(two); area != 0 {
		m.g, m.h = sum.cross(two)/area, one.cross(sum)/area
	}
	m.a, m.b, m.c = q[1].x-q[0].x+m.g*q[1].x, q[3].x-q[0].x+m.h*q[3].x, q[0].x
	m.d, m.e, m.f = q[1].y-q[0].y+m.g*q[1].y, q[3].y-q[0].y+m.h*q[3].y, q[0].y
	return m
}

func (m *projection) at(u, v float64) point {
	w := m.g*u + m.h*v + 1
	return point{(m.a*u + m.b*v + m.c) / w, (m.d*u + m.e*v + m.f) / w}
}

// upright is how tall by how wide a line may be that is not read from the side.
const upright = 1.5

// cropSize is that of a box's pixels, before it is turned.
func cropSize(q quad) (height, width int) {
	side := func(a, b, c, d int) int {
		return max(1, int(max(q[a].minus(q[b]).length(), q[c].minus(q[d]).length())))
	}
	return side(0, 3, 1, 2), side(0, 1, 2, 3)
}

// crop is what a box of the page has in it, made a rectangle; of one that is taller than wide, turned by a quarter to the left.
func (p *pixels) crop(q quad) *pixels {
	height, width := cropSize(q)
	out := newPixels(height, width)
	m := project(q)
	if m.g == 0 && m.h == 0 && m.b == 0 && m.d == 0 && m.a == float64(width) && m.e == float64(height) && m.c == math.Trunc(m.c) && m.f == math.Trunc(m.f) {
		p.copyTo(out, int(m.c), int(m.f))
	} else {
		p.sampleTo(out, &m)
	}
	if float64(height) >= upright*float64(width) {
		return out.turnedLeft()
	}
	return out
}

// copyTo fills out with the pixels from (x, y) on.
func (p *pixels) copyTo(out *pixels, x, y int) {
	for row := range out.height {
		for column := range out.width {
			copy(out.rgb[3*(row*out.width+column):][:3], p.at(x+column, y+row))
		}
	}
}

// sampleTo fills out by bicubic interpolation.
func (p *pixels) sampleTo(out *pixels, m *projection) {
	for row := range out.height {
		v := float64(row) / float64(out.height)
		for column := range out.width {
			at := m.at(float64(column)/float64(out.width), v)
			p.sample(out.rgb[3*(row*out.width+column):][:3], at)
		}
	}
}

// sample writes the colours at a point between pixels.
func (p *pixels) sample(to []byte, at point) {
	left, above := math.Floor(at.x), math.Floor(at.y)
	x, y := int(left), int(above)
	across, down := cubicShares(float32(at.x-left)), cubicShares(float32(at.y-above))
	var sum [3]float32
	inside := x >= 1 && y >= 1 && x+2 < p.width && y+2 < p.height
	for j, share := range down {
		var four []byte
		if inside {
			four = p.rgb[3*((y-1+j)*p.width+x-1):][:12]
		} else {
			four = make([]byte, 0, 12)
			for i := range 4 {
				four = append(four, p.at(x-1+i, y-1+j)...)
			}
		}
		for c := range sum {
			sum[c] += share * (across[0]*float32(four[c]) + across[1]*float32(four[3+c]) + across[2]*float32(four[6+c]) + across[3]*float32(four[9+c]))
		}
	}
	for c, v := range sum {
		to[c] = byte(min(max(v+0.5, 0), 255))
	}
}

// cubicShares are those of four neighbours in a value that is t behind the second one.
func cubicShares(t float32) (s [4]float32) {
	const bend = -0.75
	s[0] = ((bend*(t+1)-5*bend)*(t+1)+8*bend)*(t+1) - 4*bend
	s[1] = ((bend+2)*t-(bend+3))*t*t + 1
	s[2] = ((bend+2)*(1-t)-(bend+3))*(1-t)*(1-t) + 1
	s[3] = 1 - s[0] - s[1] - s[2]
	return s
}

// turnedLeft is p turned by a quarter.
func (p *pixels) turnedLeft() *pixels {
	out := newPixels(p.width, p.height)
	for y := range out.height {
		for x := range out.width {
			copy(out.rgb[3*(y*out.width+x):][:3], p.at(p.width-1-y, x))
		}
	}
	return out
}

// turnOver turns p by a half.
func (p *pixels) turnOver() {
	for a, b := 0, len(p.rgb)-3; a < b; a, b = a+3, b-3 {
		for c := range 3 {
			p.rgb[a+c], p.rgb[b+c] = p.rgb[b+c], p.rgb[a+c]
		}
	}
}
