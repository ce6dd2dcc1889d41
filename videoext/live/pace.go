package live

import "time"

// slack is by how much a camera's clock may be faster than the server's.
const slack = 1.02

// pace holds a camera to the frames a second that it was admitted with. What it has not sent it may send later, as one does whose link was slow, but no more than a
// camera keeps.
type pace struct {
	rate   float64       // frames a second; 0: it is not known, and holds to nothing
	most   float64       // frames that a camera keeps
	credit float64       // frames that might have come at once at a time
	at     time.Duration // that time; 0: none has come, and all that a camera keeps might
}

// waitForFrame is for how long frames that come now are to wait.
func (p *pace) waitForFrame(now time.Duration, frames float64) time.Duration {
	if p.rate <= 0 {
		return 0
	}
	if p.at == 0 {
		p.credit = p.most
	}
	p.credit = min(p.credit+p.rate*slack*(now-p.at).Seconds(), p.most)
	p.at = now
	if short := min(frames, p.most) - p.credit; short > 0 {
		return secondsLong(short/(p.rate*slack)) + 1
	}
	return 0
}

// takeFrame counts frames that wait no more.
func (p *pace) takeFrame(frames float64) { p.credit -= min(frames, p.most) }

// lasts is in what time so many frames come.
func (p *pace) lasts(frames float64) time.Duration {
	if p.rate <= 0 {
		return 0
	}
	return secondsLong(min(frames, p.most) / p.rate)
}

func secondsLong(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
