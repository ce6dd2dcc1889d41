package lidar

import "math"

// prism is a rectangle with a yaw, between two heights.
type prism struct {
	Box
	low, high float64
	car       int // whose it is; -1: none's
}

// castRays finds how far along the ground each ray goes until it hits something, and what: -1 is the ground.
func castRays(things []prism) (ranges *[columns][beams]float64, hits *[columns][beams]int) {
	ranges, hits = new([columns][beams]float64), new([columns][beams]int)
	for column := range columns {
		for beam := range beams {
			ranges[column][beam], hits[column][beam] = math.Inf(1), -1
			if beamRise[beam] < 0 {
				ranges[column][beam] = mountedAt / -beamRise[beam]
			}
		}
	}
	for i := range things {
		things[i].occludeRays(i, ranges, hits)
	}
	return ranges, hits
}

// occludeRays puts the prism in front of what is farther.
func (p *prism) occludeRays(number int, ranges *[columns][beams]float64, hits *[columns][beams]int) {
	radius, away := math.Hypot(p.Length, p.Width)/2, math.Hypot(p.X, p.Y)
	if away-radius > reach {
		return
	}
	spread := columns / 2
	if away > radius {
		spread = int(math.Asin(radius/away)/betweenRays) + 1
	}
	middle := int(math.Round(math.Atan2(p.Y, p.X) / betweenRays))
	for n := middle - spread; n < min(middle+spread+1, middle-spread+columns); n++ {
		column := (n + columns) % columns
		in, out, ok := p.crossingInterval(float64(column) * betweenRays)
		if !ok {
			continue
		}
		for beam := range beams {
			if d, ok := p.rayHit(in, out, beamRise[beam]); ok && d < ranges[column][beam] {
				ranges[column][beam], hits[column][beam] = d, number
			}
		}
	}
}

// crossingInterval is where a ray at an angle goes into the prism and out of it, as seen from above.
func (p *prism) crossingInterval(angle float64) (in, out float64, ok bool) {
	sin, cos := math.Sincos(p.Yaw)
	x, y := p.X*cos+p.Y*sin, -p.X*sin+p.Y*cos // of the middle, along the prism's sides
	dy, dx := math.Sincos(angle - p.Yaw)
	in, out = 0, math.Inf(1)
	for _, side := range [2]struct{ at, by, half float64 }{{x, dx, p.Length / 2}, {y, dy, p.Width / 2}} {
		if side.by == 0 {
			if math.Abs(side.at) > side.half {
				return 0, 0, false
			}
			continue
		}
		a, b := (side.at-side.half)/side.by, (side.at+side.half)/side.by
		in, out = max(in, min(a, b)), min(out, max(a, b))
	}
	return in, out, in < out
}

// rayHit is where a ray that is above the prism's rectangle from in to out hits it.
func (p *prism) rayHit(in, out, rise float64) (float64, bool) {
	switch height := mountedAt + in*rise; {
	case height > p.high: // perhaps its top
		in = (p.high - mountedAt) / rise
		return in, rise < 0 && in < out
	case height < p.low:
		in = (p.low - mountedAt) / rise
		return in, rise > 0 && in < out
	}
	return in, true
}
