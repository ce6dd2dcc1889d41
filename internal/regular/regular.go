// Package regular reads regular files alone: a pipe, a socket, a device or a directory under the name
// of a file is an error at once, where reading it could wait, or go on, for ever.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Open opens the file at path, or where its symbolic links lead, for reading.
func Open(path string) (*os.File, error) {
	return openRegular(path, path, os.Stat, os.OpenFile)
}

// OpenIn is Open below a directory: links that lead out of it are errors.
func OpenIn(root *os.Root, name string) (*os.File, error) {
	return openRegular(name, filepath.Join(root.Name(), name), root.Stat, root.OpenFile)
}

// openRegular opens name, which errors call path.
func openRegular(name, path string, stat func(string) (fs.FileInfo, error), openFile func(string, int, fs.FileMode) (*os.File, error)) (*os.File, error) {
	info, err := stat(name)
	if err != nil {
		return nil, err
	}
	if err := checkRegular(path, info); err != nil {
		return nil, err
	}
	// What is there may have changed since: a pipe that is opened so does not wait for a writer.
	f, err := openFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = checkRegular(path, info)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile returns the content of the file at path, which may have at most limit bytes.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes, the most that is read of such a file", path, limit)
	}
	return content, nil
}

func checkRegular(path string, info fs.FileInfo) error {
	kind := ""
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "directory"
	case mode&fs.ModeNamedPipe != 0:
		kind = "pipe"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	default:
		kind = "device"
	}
	return fmt.Errorf("%s is a %s, not a regular file", path, kind)
}
