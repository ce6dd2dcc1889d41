package generations

import (
	"errors"
	"os"
	"path/filepath"
)

// beforeWrite is called before each change of what is on the disk, where tests end the process; toDisk makes a file lasting, which they do not need.
var (
	beforeWrite = func(path string) error { return nil }
	toDisk      = (*os.File).Sync
)

// writeFile writes a file that is there whole, or not at all.
func writeFile(path string, content []byte) error {
	partial := path + partialSuffix
	if err := writeThrough(partial, content); err != nil {
		return errors.Join(err, os.Remove(partial))
	}
	return renameFile(partial, path)
}

// partialSuffix is of what is being written: a process that comes later removes it.
const partialSuffix = ".partial"

// writeThrough writes a file to the disk.
func writeThrough(path string, content []byte) error {
	if err := beforeWrite(path); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, toDisk(f), f.Close())
}

// renameFile gives a file or directory its name, on the disk, too.
func renameFile(from, to string) error {
	if err := beforeWrite(to); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(toDisk(f), f.Close())
}

// writeDir makes a directory of files, which is there whole, or not at all.
func writeDir(path string, names []string, contents [][]byte) error {
	partial := path + partialSuffix
	if err := errors.Join(beforeWrite(partial), os.RemoveAll(partial)); err != nil {
		return err
	}
	err := os.Mkdir(partial, 0o777)
	for i, name := range names {
		if err == nil {
			err = writeThrough(filepath.Join(partial, name), contents[i])
		}
	}
	if err == nil {
		err = syncDir(partial)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	return renameFile(partial, path)
}

// writeLink makes path a symbolic link, in the place of another in one step.
func writeLink(target, path string) error {
	partial := path + partialSuffix
	if err := errors.Join(beforeWrite(partial), os.RemoveAll(partial)); err != nil {
		return err
	}
	if err := os.Symlink(target, partial); err != nil {
		return err
	}
	return renameFile(partial, path)
}
