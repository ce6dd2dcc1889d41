package scene

import "math"

// drawStreet draws what stands still.
func (s *Scene) drawStreet(c canvas) {
	w, h := s.frameSize()
	d := newDice(s.seed, 1<<32)
	edge := s.groundY(7)
	for y := range int(h) {
		c.fillBox(0, float64(y), w, float64(y)+1, 0, colour{150, 186, 220}.scaleBrightness(1-0.12*float64(y)/edge))
	}
	for x := -0.05 * w * d.nextFloat(); x < w; {
		x += s.drawHouse(c, &d, x, edge)
	}
	band := func(from, to float64, paint colour) { c.fillBox(0, s.groundY(from), w, s.groundY(to), 0, paint) }
	band(7, 5, colour{150, 146, 140})
	band(5, 3.1, colour{84, 86, 90})
	band(3.1, 2.3, colour{158, 152, 144})
	band(2.3, 1.42, colour{78, 80, 84})
	band(1.42, 0.9, colour{164, 158, 150})
	s.drawMarkings(c)
	for range 6 {
		s.drawTree(c, &d, d.nextFloat()*w, 2.32+0.12*d.nextFloat())
	}
	s.addTexture(c)
}

// drawMarkings are dashes between lanes and the edges of pavements.
func (s *Scene) drawMarkings(c canvas) {
	w, h := s.frameSize()
	for _, depth := range []float64{3.95, 1.74} {
		y, metre := s.groundY(depth), h*0.13/depth
		for x := 0.0; x < w; x += 5 * metre {
			c.fillBox(x, y-0.05*metre, x+2.2*metre, y+0.05*metre, 0, colour{214, 212, 204})
		}
	}
	for _, depth := range []float64{5, 3.1, 2.3, 1.42} {
		y, metre := s.groundY(depth), h*0.13/depth
		c.fillBox(0, y-0.06*metre, w, y+0.08*metre, 0, colour{196, 192, 184})
	}
}

// drawHouse draws one with windows, from x on, and returns its width.
func (s *Scene) drawHouse(c canvas, d *dice, x, floor float64) float64 {
	_, h := s.frameSize()
	width, top := h*(0.25+0.3*d.nextFloat()), floor-h*(0.22+0.16*d.nextFloat())
	wall := colour{168 + 50*d.nextFloat(), 140 + 40*d.nextFloat(), 116 + 40*d.nextFloat()}
	c.fillBox(x, top, x+width, floor, 0, wall)
	c.fillBox(x, top, x+width, top+h*0.012, 0, wall.scaleBrightness(0.6))
	columns := 3 + int(3*d.nextFloat())
	pitch, storey := width/float64(columns), h*0.075
	for i := range columns {
		for y := top + storey*0.5; y < floor-storey*0.5; y += storey {
			left := x + pitch*(float64(i)+0.28)
			pane := colour{66, 78, 92}.scaleBrightness(0.7 + 0.8*d.nextFloat())
			c.fillBox(left, y, left+pitch*0.44, y+storey*0.55, 0, pane)
			c.fillBox(left, y+storey*0.55, left+pitch*0.44, y+storey*0.62, 0, wall.scaleBrightness(1.15))
		}
	}
	return width
}

func (s *Scene) drawTree(c canvas, d *dice, x, depth float64) {
	_, h := s.frameSize()
	y, metre := s.groundY(depth), h*0.13/depth
	c.drawLine(x, y, x, y-1.6*metre, 0.14*metre, colour{84, 62, 44})
	for range 14 {
		angle, far := d.nextFloat()*2*math.Pi, d.nextFloat()
		green := colour{48, 98, 44}.scaleBrightness(0.7 + 0.7*d.nextFloat())
		c.fillDisc(x+0.55*metre*far*math.Cos(angle), y-(2+0.6*far*math.Sin(angle))*metre, (0.2+0.25*d.nextFloat())*metre, 0, green)
	}
}

// addTexture roughens all surfaces, so that an encoder has something to do.
func (s *Scene) addTexture(c canvas) {
	d := newDice(s.seed, 2<<32)
	for i := 0; i < len(c.Pix); i += 4 {
		f := 0.955 + 0.09*d.nextFloat()
		for k := range 3 {
			c.Pix[i+k] = byte(min(float64(c.Pix[i+k])*f, 255))
		}
		c.Pix[i+3] = 255
	}
}
