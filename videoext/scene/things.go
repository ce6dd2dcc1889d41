package scene

import "math"

// palette are colours of paint and cloth.
var palette = []colour{
	{196, 40, 36}, {38, 84, 168}, {226, 226, 222}, {40, 42, 48}, {150, 154, 160}, {222, 176, 44}, {40, 120, 74}, {120, 60, 130}, {214, 110, 40}, {92, 70, 52},
}

func (d *dice) nextColour() colour {
	return palette[int(d.nextFloat()*float64(len(palette)))].scaleBrightness(0.8 + 0.35*d.nextFloat())
}

// drawThing draws a thing and returns its width and height in pixels.
func (t *thing) drawThing(c canvas) (width, height float64) {
	switch t.lane.class {
	case Car:
		return t.drawCar(c)
	case Bicycle:
		return t.drawBicycle(c)
	}
	return t.drawPerson(c)
}

// isForward is whether the thing goes to the right.
func (t *thing) isForward() bool { return t.lane.speed > 0 }

// pixelAt is a place in metres from the lower back corner of a thing of a length, in pixels.
func (t *thing) pixelAt(x, y, length float64) (float64, float64) {
	if !t.isForward() {
		x = length - x
	}
	return t.x + x*t.metre, t.y - y*t.metre
}

func (t *thing) drawCar(c canvas) (width, height float64) {
	d, m := &t.dice, t.metre
	length, tall := 3.7+d.nextFloat(), 1.4+0.35*d.nextFloat()
	paint, glass := d.nextColour(), colour{70, 88, 104}.scaleBrightness(0.7+0.6*d.nextFloat())
	van := d.nextFloat() < 0.3
	// the shadow, the cabin, its windows, the body, wheels and lights
	c.fillBox(t.x+0.1*m, t.y-0.12*m, t.x+length*m-0.1*m, t.y+0.06*m, 0.08*m, colour{38, 38, 40})
	back, front, leanBack, leanFront := 0.35, length-1.15, 0.35, 0.75
	if van {
		tall, back, leanBack = tall+0.25, 0.05, 0.1
	}
	left, right := leanBack, leanFront
	x0, x1 := t.x+back*m, t.x+front*m
	if !t.isForward() {
		left, right = right, left
		x0, x1 = t.x+(length-front)*m, t.x+(length-back)*m
	}
	c.fillTrapezoid(x0, t.y-tall*m, x1, t.y-0.7*m, left*m, right*m, paint.scaleBrightness(0.9))
	c.fillTrapezoid(x0+0.16*m, t.y-(tall-0.12)*m, x1-0.16*m, t.y-0.85*m, left*0.75*m, right*0.75*m, glass)
	pillar := (x0 + x1) / 2
	c.fillBox(pillar-0.05*m, t.y-tall*m, pillar+0.05*m, t.y-0.7*m, 0, paint.scaleBrightness(0.85))
	c.fillBox(t.x, t.y-0.9*m, t.x+length*m, t.y-0.25*m, 0.2*m, paint)
	c.fillBox(t.x+0.05*m, t.y-0.42*m, t.x+length*m-0.05*m, t.y-0.25*m, 0.05*m, paint.scaleBrightness(0.6))
	for _, at := range []float64{0.75, length - 0.8} {
		c.fillDisc(t.x+at*m, t.y-0.31*m, 0.31*m, 0, colour{24, 24, 26})
		c.fillDisc(t.x+at*m, t.y-0.31*m, 0.16*m, 0, colour{150, 152, 156})
	}
	for i, light := range []colour{{200, 24, 20}, {250, 244, 200}} {
		x, y := t.pixelAt(0.1+float64(i)*(length-0.2), 0.65, length)
		c.fillDisc(x, y, 0.09*m, 0, light)
	}
	return length * m, tall * m
}

// skin are colours of faces.
var skin = []colour{{236, 200, 172}, {198, 146, 108}, {122, 82, 58}}

func (d *dice) nextSkin() colour { return skin[int(d.nextFloat()*float64(len(skin)))] }

func (t *thing) drawPerson(c canvas) (width, height float64) {
	d := &t.dice
	tall := 1.55 + 0.3*d.nextFloat()
	coat, trousers, face, hair := d.nextColour(), d.nextColour().scaleBrightness(0.6), d.nextSkin(), d.nextColour().scaleBrightness(0.3)
	m := t.metre * tall / 1.7
	const half = 0.3
	mx := t.x + half*m
	step := math.Sin(t.time*7+d.nextFloat()*6) * 0.22 * m
	c.fillBox(mx-0.3*m, t.y-0.05*m, mx+0.3*m, t.y+0.04*m, 0.04*m, colour{90, 88, 86})
	hip, neck := t.y-0.82*m, t.y-1.42*m
	for _, side := range []float64{-1, 1} {
		c.drawLine(mx, hip, mx+side*step, t.y-0.06*m, 0.16*m, trousers.scaleBrightness(1+0.15*side))
	}
	c.drawLine(mx, neck+0.08*m, mx-step*0.9, hip, 0.1*m, coat.scaleBrightness(0.7))
	c.fillBox(mx-0.19*m, neck, mx+0.19*m, hip+0.08*m, 0.1*m, coat)
	c.drawLine(mx, neck+0.08*m, mx+step*0.9, hip, 0.1*m, coat.scaleBrightness(0.85))
	c.fillDisc(mx, t.y-1.56*m, 0.135*m, 0, hair)
	c.fillDisc(mx, t.y-1.53*m, 0.11*m, 0, face)
	return 2 * half * m, 1.7 * m
}

func (t *thing) drawBicycle(c canvas) (width, height float64) {
	d, m := &t.dice, t.metre
	const length = 1.75
	paint, coat, trousers, helmet := d.nextColour(), d.nextColour(), d.nextColour().scaleBrightness(0.6), d.nextColour()
	stroke := func(x0, y0, x1, y1, w float64, paint colour) {
		ax, ay := t.pixelAt(x0, y0, length)
		bx, by := t.pixelAt(x1, y1, length)
		c.drawLine(ax, ay, bx, by, w*m, paint)
	}
	for _, at := range []float64{0.34, length - 0.34} {
		x, y := t.pixelAt(at, 0.34, length)
		c.fillDisc(x, y, 0.31*m, 0.06*m, colour{26, 26, 28})
	}
	stroke(0.34, 0.34, 0.62, 0.8, 0.06, paint)
	stroke(0.62, 0.8, 1.25, 0.8, 0.06, paint)
	stroke(0.78, 0.34, 1.25, 0.8, 0.06, paint)
	stroke(0.34, 0.34, 0.78, 0.34, 0.06, paint)
	stroke(1.41, 0.34, 1.2, 1.0, 0.06, paint)
	turn := t.time*6 + d.nextFloat()*6
	for _, side := range []float64{0, math.Pi} {
		fx, fy := 0.78+0.16*math.Cos(turn+side), 0.34+0.14*math.Sin(turn+side)
		stroke(0.6, 0.95, 0.95, 0.68, 0.13, trousers)
		stroke(0.95, 0.68, fx, fy, 0.11, trousers)
	}
	stroke(0.6, 0.98, 0.85, 1.4, 0.26, coat)
	stroke(0.85, 1.38, 1.2, 1.02, 0.1, coat.scaleBrightness(0.8))
	x, y := t.pixelAt(0.95, 1.58, length)
	c.fillDisc(x, y, 0.13*m, 0, d.nextSkin())
	c.fillBox(x-0.14*m, y-0.14*m, x+0.14*m, y-0.02*m, 0.06*m, helmet)
	return length * m, 1.72 * m
}
