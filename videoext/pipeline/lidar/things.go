package lidar

import (
	"math"
	"math/rand/v2"
	"time"
)

// Rows of things along the street, each of which has one in each of its slots or none. Things of a row do not meet those of another.
const (
	lanes = iota
	parked
	walls
	poles
	standing
	yard
)

// slotLength is how long slots are, in metres.
const slotLength = 12

// slotRandom draws what is in a slot of a row, always the same.
func (s *Street) slotRandom(row, side, n int) *rand.Rand {
	return rand.New(rand.NewPCG(s.seed<<16|uint64(row)<<8|uint64(side+1), uint64(int64(n))))
}

// driveScene gathers what is around the sensor.
type driveScene struct {
	things []prism
	cars   []Box
	ego    float64 // where the sensor is along the street
}

// thingsInReach are those in reach at a time.
func (s *Street) thingsInReach(at time.Duration) ([]prism, []Box) {
	c := &driveScene{ego: s.travelledDistance(at)}
	s.addTraffic(c, at)
	first, last := int(math.Floor((c.ego-reach)/slotLength)), int(math.Ceil((c.ego+reach)/slotLength))
	for n := first; n <= last; n++ {
		for _, side := range []int{-1, 1} {
			s.addRoadside(c, side, n)
		}
	}
	return c.things, c.cars
}

// drives are the lanes, the sensor's first: where they are, and how fast cars go there; if ahead, faster than the sensor's does.
var drives = []struct{ y, speed float64 }{{0, 0}, {3.4, 1.5}, {6.8, -9}, {10.2, -7}}

// addTraffic adds the cars that drive. Those of the sensor's lane keep their distance to it.
func (s *Street) addTraffic(c *driveScene, at time.Duration) {
	for row, lane := range drives {
		moved := lane.speed * at.Seconds()
		if lane.speed < 0 {
			moved -= c.ego // as seen from the sensor
		}
		first, last := int(math.Floor((-reach-moved)/slotLength)), int(math.Ceil((reach-moved)/slotLength))
		for n := first; n <= last; n++ {
			r := s.slotRandom(lanes, row, n)
			if r.Float64() < 0.45 || row == 0 && (n == 0 || n == -1) {
				continue
			}
			sway := 2 * math.Pi * r.Float64()
			x := float64(n)*slotLength + slotLength/2 + 2*(r.Float64()-0.5) + moved
			y := lane.y + 0.3*math.Sin(0.5*at.Seconds()+sway)
			yaw := 0.04 * math.Cos(0.5*at.Seconds()+sway)
			if lane.speed < 0 {
				yaw = math.Pi - yaw
			}
			c.addCar(r, x+c.ego, y, yaw)
		}
	}
}

// addRoadside adds what stands at a side of the street, in a slot.
func (s *Street) addRoadside(c *driveScene, side, n int) {
	edge := -4.0 // of the road, to the right
	if side > 0 {
		edge = 13
	}
	out := float64(side)
	section := s.slotRandom(yard, side, int(math.Floor(float64(n)/3))) // three slots are alike
	angle := []float64{0, 0, math.Pi / 2, 1}[section.IntN(4)] * out
	deep := []float64{4, 8, 16}[section.IntN(3)]
	x := float64(n) * slotLength
	for i, r := 0, s.slotRandom(parked, side, n); i < 2; i++ {
		if r.Float64() < 0.5 {
			c.addCar(r, x+3+6*float64(i)+(r.Float64()-0.5), edge+out*2.4, angle+0.12*(r.Float64()-0.5))
		}
	}
	if r := s.slotRandom(poles, side, n); r.Float64() < 0.7 {
		c.addPrism(prism{Box: Box{x + slotLength*r.Float64(), edge + out*5.6, 0.3, 0.3, 0}, high: 6, car: -1})
	}
	if r := s.slotRandom(standing, side, n); deep > 4 && r.Float64() < 0.8 {
		addObstacle(c, r, x+2+8*r.Float64(), edge+out*(1.375*deep-2.5))
	}
	if r := s.slotRandom(standing, side+2, n); deep > 8 {
		for i := range 2 {
			if r.Float64() < 0.5 {
				c.addCar(r, x+3+6*float64(i), edge+out*13.5, math.Pi/2+0.15*(r.Float64()-0.5))
			}
		}
	}
	if r := s.slotRandom(walls, side, n); r.Float64() < 0.8 {
		c.addPrism(prism{Box: Box{x + slotLength/2, edge + out*(6.5+deep+3), slotLength * (0.7 + 0.3*r.Float64()), 6, 0}, high: 3 + 8*r.Float64(), car: -1})
	}
}

// addObstacle adds what is no car and might be taken for one: kiosks, hedges, containers, and persons.
func addObstacle(c *driveScene, r *rand.Rand, x, y float64) {
	kinds := []prism{
		{Box: Box{Length: 2.2, Width: 2.2}, high: 2.5},
		{Box: Box{Length: 5, Width: 0.7}, high: 1.1},
		{Box: Box{Length: 3.4, Width: 1.8}, high: 2.3},
		{Box: Box{Length: 0.5, Width: 0.5}, high: 1.7},
		{Box: Box{Length: 1.9, Width: 0.6}, high: 1.5},
	}
	p := kinds[r.IntN(len(kinds))]
	p.X, p.Y, p.car = x, y, -1
	p.Yaw = []float64{0, math.Pi / 2}[r.IntN(2)] + 0.3*(r.Float64()-0.5)
	c.addPrism(p)
}

// addCar adds one: a body and a cabin on it.
func (c *driveScene) addCar(r *rand.Rand, x, y, yaw float64) {
	size := 0.85 + 0.35*r.Float64()
	length, width, high := 4.3*size, 1.75+0.25*(size-0.85), 1.35+0.5*(size-0.85)+0.1*r.Float64()
	number := len(c.cars)
	c.cars = append(c.cars, Box{x - c.ego, y, length, width, yaw})
	sin, cos := math.Sincos(yaw)
	back := 0.08 * length
	c.addPrism(prism{Box: Box{x, y, length, width, yaw}, low: 0.2, high: 0.58 * high, car: number})
	c.addPrism(prism{Box: Box{x - back*cos, y - back*sin, 0.55 * length, 0.88 * width, yaw}, low: 0.58 * high, high: high, car: number})
}

// addPrism adds a thing that is at a place along the street.
func (c *driveScene) addPrism(p prism) {
	p.X -= c.ego
	c.things = append(c.things, p)
}
