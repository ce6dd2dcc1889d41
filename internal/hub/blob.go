package hub

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
)

// blobTries is how often a file is asked for while nothing of it comes.
const blobTries = 5

// fetchBlob makes a file a blob of the cache. One process at a time does so, others wait for it.
func (d *download) fetchBlob(ctx context.Context, f File) error {
	release, err := lockFile(ctx, d.cache.lockPath(f))
	if err != nil {
		return explainWriteError(d.cache.root, err)
	}
	defer release()
	at := d.cache.blobPath(f)
	if info, err := os.Stat(at); err == nil && info.Mode().IsRegular() && info.Size() == f.Size {
		d.progress.addBytes(f.Size)
		return nil
	}
	p, err := openPartial(at+".incomplete", f, d.progress.addBytes)
	if err != nil {
		return explainWriteError(d.cache.root, err)
	}
	defer p.file.Close()
	if err := d.completeFile(ctx, p); err != nil {
		return err
	}
	if err := errors.Join(p.file.Sync(), p.file.Close()); err != nil { // a name must not outlive its content
		return explainWriteError(d.cache.root, err)
	}
	return explainWriteError(d.cache.root, os.Rename(p.path, at))
}

// completeFile completes a partial file and checks it. What an earlier process left may be broken: then it is fetched anew, once.
func (d *download) completeFile(ctx context.Context, p *partial) error {
	for resumed := p.have > 0; ; resumed = false {
		if err := d.receiveMissing(ctx, p); err != nil {
			return err
		}
		err := verifyDigest(p.of, p.hash)
		if err == nil {
			return nil
		}
		if !resumed {
			return errors.Join(err, os.Remove(p.path))
		}
		if err := p.restartPartial(); err != nil {
			return explainWriteError(d.cache.root, err)
		}
	}
}

// receiveMissing asks for what is missing of a file until all of it is here.
func (d *download) receiveMissing(ctx context.Context, p *partial) error {
	for try := 0; p.have < p.of.Size; {
		before := p.have
		err := d.client.transferPart(ctx, d.commit, p)
		if p.broken != nil {
			return explainWriteError(d.cache.root, p.broken)
		}
		if err == nil {
			continue
		}
		if p.have > before {
			try = 0
		}
		if !d.client.waitRetry(ctx, try, blobTries, err) {
			return fmt.Errorf("%s: %w", p.of.Path, d.client.explainError(err, p.of.Path))
		}
		try++
	}
	return nil
}

// partial is a file that is not complete yet, and the hash of what is here of it.
type partial struct {
	path   string
	file   *os.File
	of     File
	have   int64
	hash   hash.Hash
	told   func(int64) // of bytes that came, or were given up
	broken error       // what kept bytes from being written
}

// openPartial opens what an earlier process left of a file, or a new one.
func openPartial(path string, f File, told func(int64)) (*partial, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	p := &partial{path: path, file: file, of: f, hash: newDigest(f), told: told}
	if p.have, err = io.Copy(p.hash, io.LimitReader(file, f.Size+1)); err == nil {
		told(p.have)
		if p.have > f.Size {
			err = p.restartPartial()
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return p, nil
}

// restartPartial gives up what is here.
func (p *partial) restartPartial() error {
	p.told(-p.have)
	p.have, p.hash = 0, newDigest(p.of)
	_, err := p.file.Seek(0, io.SeekStart)
	return errors.Join(err, p.file.Truncate(0))
}

func (p *partial) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	p.hash.Write(b[:n])
	p.have += int64(n)
	p.told(int64(n))
	p.broken = err
	return n, err
}

// errShort is an answer that ends early.
var errShort = errors.New("answer ended early")

// transferPart appends to a partial file what one request brings.
func (c *client) transferPart(ctx context.Context, commit string, p *partial) error {
	resp, err := c.getFromByte(ctx, c.fileAddress(commit, p.of), p.have)
	if err != nil {
		return c.outOfRange(err, p)
	}
	defer resp.Body.Close()
	host, want := resp.Request.URL.Host, p.of.Size
	if resp.StatusCode == http.StatusPartialContent {
		want -= p.have
	}
	if n := resp.ContentLength; n >= 0 && n != want {
		return fmt.Errorf("%s sends %d bytes, want %d: try again, or another HF_ENDPOINT", host, n, want)
	}
	if from, ok := rangeStart(resp); p.have > 0 && (!ok || from != p.have) {
		if p.broken = p.restartPartial(); p.broken != nil || resp.StatusCode == http.StatusPartialContent {
			return &transportError{host, errors.New("it sent another range than was asked for")}
		}
	}
	if _, err := io.Copy(p, io.LimitReader(resp.Body, want)); err != nil {
		return err
	}
	if p.have < p.of.Size {
		return &transportError{host, errShort}
	}
	if n, _ := resp.Body.Read(make([]byte, 1)); resp.ContentLength < 0 && n > 0 {
		p.broken = p.restartPartial()
		return fmt.Errorf("%s sends more than %d bytes, the size in the hub's listing: try again, or another HF_ENDPOINT", host, p.of.Size)
	}
	return nil
}

// outOfRange gives up a partial file that the server has nothing to add to.
func (c *client) outOfRange(err error, p *partial) error {
	var refused *refusal
	if errors.As(err, &refused) && refused.status == http.StatusRequestedRangeNotSatisfiable && p.have > 0 {
		p.broken = p.restartPartial()
		return &transportError{c.settings.Endpoint.Host, refused}
	}
	return err
}

// rangeStart is where the part begins that an answer has.
func rangeStart(resp *http.Response) (int64, bool) {
	if resp.StatusCode != http.StatusPartialContent {
		return 0, false
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(resp.Header.Get("Content-Range"), "bytes "), "-")
	from, err := strconv.ParseInt(text, 10, 64)
	return from, err == nil
}
