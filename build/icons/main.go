// Command icons draws Signalbox's icons: a railway signal with three lamps. Run it in the repository's root after a change:
//
//	go run ./build/icons
//
// The tray shows the state by colour and, for those who do not see colours, by place: green at the bottom for
// running, amber in the middle for a device at work, red at the top for a problem, no lamp for a stopped server.
package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"math"
	"os"
	"path/filepath"
)

var (
	board   = color.NRGBA{0x17, 0x24, 0x38, 0xff} // the app icon's ground
	edge    = color.NRGBA{0xf2, 0xf5, 0xf8, 0xff} // the head's rim: seen on dark panels
	head    = color.NRGBA{0x1b, 0x20, 0x28, 0xff} // the head itself: seen on bright ones
	dark    = color.NRGBA{0x4b, 0x55, 0x63, 0xff} // a lamp that is off
	dimEdge = color.NRGBA{0x9a, 0xa3, 0xae, 0xff}
	dimHead = color.NRGBA{0x50, 0x58, 0x64, 0xff}
	dimLamp = color.NRGBA{0x7b, 0x85, 0x92, 0xff}
	red     = color.NRGBA{0xff, 0x45, 0x3a, 0xff}
	amber   = color.NRGBA{0xff, 0xb0, 0x20, 0xff}
	green   = color.NRGBA{0x33, 0xd6, 0x73, 0xff}
)

// signal is one picture: the lamps from top to bottom, on a board or bare.
type signal struct {
	lamps      [3]color.NRGBA
	edge, head color.NRGBA
	board      bool
}

var states = map[string]signal{
	"running": {lamps: [3]color.NRGBA{dark, dark, green}, edge: edge, head: head},
	"busy":    {lamps: [3]color.NRGBA{dark, amber, dark}, edge: edge, head: head},
	"problem": {lamps: [3]color.NRGBA{red, dark, dark}, edge: edge, head: head},
	"stopped": {lamps: [3]color.NRGBA{dimLamp, dimLamp, dimLamp}, edge: dimEdge, head: dimHead},
}

var app = signal{lamps: [3]color.NRGBA{dark, dark, green}, edge: edge, head: head, board: true}

// at is the colour at a point of the unit square; alpha 0 outside.
func (s signal) at(x, y float64) color.NRGBA {
	scale := 1.0
	if s.board {
		scale = 0.74
	}
	u, v := (x-0.5)/scale, (y-0.5)/scale // the head's own coordinates, 0 in the middle
	for i, lamp := range s.lamps {
		if math.Hypot(u, v-float64(i-1)*0.285) < 0.125 {
			return lamp
		}
	}
	switch {
	case roundedBox(u, v, 0.205, 0.44, 0.205) < 0:
		return s.head
	case roundedBox(u, v, 0.265, 0.5, 0.265) < 0:
		return s.edge
	case s.board && roundedBox(x-0.5, y-0.5, 0.48, 0.48, 0.22) < 0:
		return board
	}
	return color.NRGBA{}
}

// roundedBox is the distance to a box of the given half sizes and corner radius: negative inside.
func roundedBox(x, y, w, h, r float64) float64 {
	dx, dy := math.Abs(x)-w+r, math.Abs(y)-h+r
	return math.Hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0) - r
}

// draw renders with 8 x 8 samples a pixel.
func (s signal) draw(size int) *image.NRGBA {
	const n = 8
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	for py := range size {
		for px := range size {
			var r, g, b, a float64
			for i := range n * n {
				c := s.at((float64(px)+(float64(i%n)+0.5)/n)/float64(size), (float64(py)+(float64(i/n)+0.5)/n)/float64(size))
				w := float64(c.A)
				r, g, b, a = r+float64(c.R)*w, g+float64(c.G)*w, b+float64(c.B)*w, a+w
			}
			if a > 0 {
				img.SetNRGBA(px, py, color.NRGBA{byte(r/a + 0.5), byte(g/a + 0.5), byte(b/a + 0.5), byte(a/n/n + 0.5)})
			}
		}
	}
	return img
}

func encodePNG(img image.Image) []byte {
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, img); err != nil {
		log.Fatal(err)
	}
	return out.Bytes()
}

// encodeDIB is the bitmap form of an icon's picture: old loaders read small sizes only like this.
func encodeDIB(img *image.NRGBA) []byte {
	size := img.Bounds().Dx()
	var out bytes.Buffer
	// BITMAPINFOHEADER; the height counts the mask below the picture too.
	header := []any{uint32(40), int32(size), int32(2 * size), uint16(1), uint16(32), uint32(0), uint32(0), int32(0), int32(0), uint32(0), uint32(0)}
	for _, field := range header {
		_ = binary.Write(&out, binary.LittleEndian, field)
	}
	for y := size - 1; y >= 0; y-- {
		for x := range size {
			c := img.NRGBAAt(x, y)
			out.Write([]byte{c.B, c.G, c.R, c.A})
		}
	}
	out.Write(make([]byte, (size+31)/32*4*size)) // the mask: alpha decides
	return out.Bytes()
}

func (s signal) encodeICO(sizes ...int) []byte {
	var dir, data bytes.Buffer
	_ = binary.Write(&dir, binary.LittleEndian, [3]uint16{0, 1, uint16(len(sizes))})
	for _, size := range sizes {
		picture := encodeDIB(s.draw(size))
		if size >= 256 {
			picture = encodePNG(s.draw(size))
		}
		dir.Write([]byte{byte(size), byte(size), 0, 0}) // 256 is written as 0
		_ = binary.Write(&dir, binary.LittleEndian, [2]uint16{1, 32})
		_ = binary.Write(&dir, binary.LittleEndian, [2]uint32{uint32(len(picture)), uint32(6 + 16*len(sizes) + data.Len())})
		data.Write(picture)
	}
	return append(dir.Bytes(), data.Bytes()...)
}

func write(data []byte, path ...string) {
	file := filepath.Join(append([]string{"build"}, path...)...)
	if err := os.WriteFile(file, data, 0o644); err != nil {
		log.Fatal(err)
	}
	fmt.Println(file, len(data))
}

func main() {
	log.SetFlags(0)
	write(encodePNG(app.draw(512)), "appicon.png")
	write(app.encodeICO(16, 20, 24, 32, 48, 64, 256), "appicon.ico")
	for name, s := range states {
		write(encodePNG(s.draw(64)), "tray", name+".png")
		write(s.encodeICO(16, 20, 24, 32, 48), "tray", name+".ico")
	}
}
