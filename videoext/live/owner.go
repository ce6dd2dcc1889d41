package live

import (
	"context"
	"net/http"
	"net/netip"

	"github.com/prefillonly/prefillonly/videoext/media/ffmpeg"
)

// Headers in which frontends say on whose behalf a request is made.
const (
	OwnerHeader = "X-Prefillonly-Owner"
	AdminHeader = "X-Prefillonly-Admin"
)

// owner is on whose behalf a stream was declared, or is asked for.
type owner struct {
	Owner string `json:"owner,omitempty"`
	Admin bool   `json:"admin,omitempty"` // reaches reserved addresses, too
}

func ownerOf(r *http.Request) owner {
	return owner{r.Header.Get(OwnerHeader), r.Header.Get(AdminHeader) == "true"}
}

// permitSource refuses a source that an owner may not have read, as far as that can be told without looking a name up.
func (s *Server) permitSource(spec *Spec, by owner) error {
	if !spec.isRemote() {
		return nil
	}
	to, err := ffmpeg.ParseAddress(spec.Source)
	if err == nil {
		err = s.cfg.Sources.Permit(to.Host, by.Admin)
	}
	if err != nil {
		return newFieldError("source", "source: %v; the server's operator says which are with --video-sources", err)
	}
	return nil
}

// resolver looks a host up.
type resolver = func(ctx context.Context, host string) ([]netip.Addr, error)

// hostResolver looks a host up for an owner.
func (s *Server) hostResolver(by owner) resolver {
	return func(ctx context.Context, host string) ([]netip.Addr, error) {
		return s.cfg.Sources.Resolve(ctx, host, by.Admin)
	}
}

// ownsStream says that a stream is the owner's to see, watch and remove: its own, and for an admin each.
func (o owner) ownsStream(st *stream) bool { return o.Admin || st.by.Owner == o.Owner }

// untold is the reason of a stream for an admin who did not declare it.
const untold = "who declared the stream is told why"

// statusFor is the status as an owner is told of it. Only who declared a stream learns what it reads, and why that cannot be read: the one
// may be a secret, and the other what is in the server's network.
func (s *stream) statusFor(to owner) status {
	out := s.describeStatus()
	if s.by.Owner == to.Owner || s.spec.Source == camera {
		return out
	}
	out.Source = ""
	if out.State != stateRunning && out.Reason != "" {
		out.Reason = untold
	}
	return out
}
