package lidar

import (
	"math"
	"math/rand/v2"
	"time"
)

// Point is where a ray hit, in metres from the place on the ground below the sensor: ahead of it, to its left, and up.
type Point struct{ X, Y, Z float32 }

// Box is a car seen from above, in a sweep's coordinates: its middle and its sides in metres, and by how much its length is turned from ahead to the left, in radians.
type Box struct{ X, Y, Length, Width, Yaw float64 }

// Sweep is one turn of the sensor.
type Sweep struct {
	Points []Point
	Of     []int // for each point the car that it is of, -1: none
	Cars   []Box
}

// Scanner is a sensor like those of 32 beams that were sold around 2020.
const (
	beams       = 32
	lowest      = -24 * math.Pi / 180 // elevation of beams
	highest     = 4 * math.Pi / 180
	columns     = 720 // rays of a beam in a turn
	mountedAt   = 1.8 // metres above the ground
	reach       = 50  // metres along the ground
	rangeNoise  = 0.02
	leastLoss   = 0.03 // of rays whose echo is lost, near
	mostLoss    = 0.3  // at the end of the reach
	betweenRays = 2 * math.Pi / columns
)

// Street is one drive of a car with a spinning LiDAR, drawn by seed, so that no recording's licence is in the way and the truth is known.
//
// It is simple: flat ground, and prisms with a yaw for cars, walls, poles and what stands about. Rays hit the nearest of them, with noise and drop-out; a sweep is of
// one moment. There is no reflectance, no rain, and no second echo. Sweeps of the same seed and time are the same.
type Street struct {
	seed  uint64
	speed float64 // of the sensor's car, in metres a second, on average
	phase float64
}

// NewStreet makes the street of a seed.
func NewStreet(seed uint64) *Street {
	r := rand.New(rand.NewPCG(seed, 0))
	return &Street{seed: seed, speed: 6 * r.Float64(), phase: 2 * math.Pi * r.Float64()}
}

// travelledDistance is how far the sensor's car has come: it goes slower and faster in turn.
func (s *Street) travelledDistance(at time.Duration) float64 {
	const turn, part = 0.4, 0.7
	t := at.Seconds()
	return s.speed * (t + part/turn*(math.Sin(turn*t+s.phase)-math.Sin(s.phase)))
}

// Sweep is what the sensor sees at a time.
func (s *Street) Sweep(at time.Duration) Sweep {
	things, cars := s.thingsInReach(at)
	ranges, hits := castRays(things)
	r := rand.New(rand.NewPCG(s.seed, uint64(at)+1))
	out := Sweep{Cars: cars}
	for column := range columns {
		angle := float64(column) * betweenRays
		sin, cos := math.Sincos(angle)
		for beam := range beams {
			d, lost := ranges[column][beam], r.Float64()
			noise := rangeNoise * r.NormFloat64()
			if d >= reach || lost < leastLoss+(mostLoss-leastLoss)*d*d/(reach*reach) {
				continue
			}
			d += noise
			out.Points = append(out.Points, Point{float32(d * cos), float32(d * sin), float32(mountedAt + d*beamRise[beam])})
			of := -1
			if hit := hits[column][beam]; hit >= 0 {
				of = things[hit].car
			}
			out.Of = append(out.Of, of)
		}
	}
	return out
}

// beamRise is by how much each beam goes up for a metre along the ground.
var beamRise = func() (rise [beams]float64) {
	for i := range rise {
		rise[i] = math.Tan(lowest + (highest-lowest)*float64(i)/(beams-1))
	}
	return rise
}()
