package frontend

import (
	"bytes"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prefillonly/prefillonly/engine/board"
	"github.com/prefillonly/prefillonly/engine/frontend/exchange"
)

// boardPace is how often the figures of the page are read, however many look at it.
const boardPace = time.Second

// boardReader keeps the page as it was read last, for all who look.
type boardReader struct {
	read    func() board.Reading
	version string

	mu    sync.Mutex
	board board.Board
	last  atomic.Pointer[boardViews]
}

// boardViews are the whole page, the part of it that changes and the text for terminals, of a time.
type boardViews struct {
	page, now, text []byte
	read            time.Time
}

// recentViews are at most boardPace old; older while they are being read anew.
func (b *boardReader) recentViews() *boardViews {
	if last := b.last.Load(); last != nil {
		if time.Since(last.read) < boardPace || !b.mu.TryLock() {
			return last
		}
	} else {
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	if last := b.last.Load(); last != nil && time.Since(last.read) < boardPace {
		return last
	}
	b.last.Store(b.readAnew())
	return b.last.Load()
}

func (b *boardReader) readAnew() *boardViews {
	views := &boardViews{read: time.Now()}
	figures := b.board.Step(b.read())
	figures.Version = b.version
	var page, now, text bytes.Buffer
	if err := errors.Join(figures.Page(&page), figures.Now(&now), figures.Text(&text)); err != nil {
		panic(err) // templates of this program with figures of their types
	}
	views.page, views.now, views.text = page.Bytes(), now.Bytes(), text.Bytes()
	return views
}

// answerPage answers with the page of the server, answerNow with the part of it that changes, answerText with the same as text.
func (b *boardReader) answerPage(x *exchange.Exchange, _ *http.Request) {
	writePage(x, "text/html; charset=utf-8", b.recentViews().page)
}
func (b *boardReader) answerNow(x *exchange.Exchange, _ *http.Request) {
	writePage(x, "text/html; charset=utf-8", b.recentViews().now)
}
func (b *boardReader) answerText(x *exchange.Exchange, _ *http.Request) {
	writePage(x, "text/plain; charset=utf-8", b.recentViews().text)
}

func writePage(x *exchange.Exchange, contentType string, page []byte) {
	setPageHeaders(x.Header())
	x.Header().Set("Cache-Control", "no-store")
	x.Header().Set("Content-Type", contentType)
	_, _ = x.Write(page)
}
