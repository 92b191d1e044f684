package fault

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// updates is how many changes pass while a client does not read.
const updates = 50

// lastingCases are clients that do harm for as long as they are let. Some of them do not depend on the protocol.
func lastingCases(delta bool) []streamCase {
	if !delta {
		return []streamCase{{"asks without end", asksWithoutEnd}}
	}
	return []streamCase{
		{"never reads", neverReads},
		{"asks without end", asksWithoutEnd},
		{"no HTTP/2", noHTTP2},
		{"no gRPC frame", noFrame},
	}
}

// neverReads has a client of each protocol that asks for everything and reads nothing. What is owed to them does not
// pile up: neither answers nor the requests for more of them, which flow control holds back.
func neverReads(t *testing.T, p *plane, c *culprit) {
	for _, c := range []*culprit{c, newCulprit(t, p, !c.delta)} {
		c.send(t, &xds.Request{Node: goodNode("culprit"), TypeURL: translate.ClusterType})
		again := c.encode(t, &xds.Request{TypeURL: translate.ListenerType})
		go func() {
			for range 100_000 { // in the state of the world each is to be answered in full
				if c.stream.Context().Err() != nil || c.stream.SendMsg(again) != nil {
					return
				}
			}
		}()
	}
	before := heap()
	for range updates {
		p.unharmed(t)
	}
	after := heap()
	if list := p.streams(t); len(list) != len(p.neighbours)+2 {
		t.Errorf("connected are %v: nobody should have ended the streams", list)
	}
	t.Logf("heap before %d KiB, after %d updates %d KiB", before>>10, updates, after>>10)
	if after > before+64<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// asksWithoutEnd asks for other names all the time, and reads.
func asksWithoutEnd(t *testing.T, p *plane, c *culprit) {
	c.send(t, &xds.Request{Node: goodNode("culprit"), TypeURL: translate.ClusterType})
	requests := make([][]byte, 50)
	for i := range requests {
		requests[i] = c.encode(t, &xds.Request{TypeURL: translate.EndpointType, Names: manyNames(fmt.Sprint(i), 100)})
	}
	read := make(chan error, 1)
	go func() {
		for {
			if _, err := c.receive(); err != nil {
				read <- err
				return
			}
		}
	}()
	stop := make(chan struct{})
	sent := make(chan int, 1)
	go func() {
		n := 0
		defer func() { sent <- n }()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if c.raw(requests[n%len(requests)]) != nil {
				return
			}
			n++
		}
	}()
	for range 3 {
		p.unharmed(t)
	}
	close(stop)
	t.Logf("%d requests were sent", <-sent)
	select {
	case err := <-read:
		t.Errorf("the stream has ended: %v", err)
	default:
	}
}

// noHTTP2 sends bytes that are no HTTP/2 to the port. The connection is closed.
func noHTTP2(t *testing.T, p *plane, _ *culprit) {
	for _, text := range []string{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", preface + "\x00\x00\x05\xff garbage"} {
		conn := connect(t, p)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			if err := tcp.CloseWrite(); err != nil {
				t.Fatal(err)
			}
		}
		if err := drained(conn); err != nil {
			t.Errorf("after %q: %v", text, err)
		}
	}
}

// noFrame sends a data frame whose content is no gRPC message, by hand. The stream ends, and the connection may.
func noFrame(t *testing.T, p *plane, _ *culprit) {
	headers := field(":method", "POST") + field(":scheme", "http") + field(":authority", "a") +
		field(":path", "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources") +
		field("content-type", "application/grpc") + field("te", "trailers")
	for _, data := range []string{"\xff\xff\xff\xff\xffgarbage", "\x01\x00\x00\x00\x01x", "\x00\x7f\xff\xff\xffx", "\x00"} {
		conn := connect(t, p)
		text := preface + frame(4, 0, 0, "") + frame(1, 4, 1, headers) + frame(0, 1, 1, data)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if err := trailers(conn); err != nil {
			t.Errorf("after %q: %v", data, err)
		}
	}
}

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frame returns an HTTP/2 frame.
func frame(kind, flags byte, stream uint32, payload string) string {
	b := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	return string(binary.BigEndian.AppendUint32(b, stream)) + payload
}

// field returns a header field as HPACK's literal without indexing.
func field(name, value string) string {
	return "\x00" + string([]byte{byte(len(name))}) + name + string([]byte{byte(len(value))}) + value
}

func connect(t *testing.T, p *plane) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.GRPC.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// drained reads until the server closes the connection.
func drained(conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return fmt.Errorf("the connection stays open: %w", err)
	}
	return nil // closed or reset
}

// trailers reads frames until the server has ended stream 1, by headers that end it or by a reset.
func trailers(conn net.Conn) error {
	for {
		var head [9]byte
		if _, err := io.ReadFull(conn, head[:]); err != nil {
			return fmt.Errorf("the stream was not ended: %w", err)
		}
		size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
		if _, err := io.CopyN(io.Discard, conn, size); err != nil {
			return err
		}
		stream := binary.BigEndian.Uint32(head[5:])
		if stream == 1 && (head[3] == 3 || head[3] == 1 && head[4]&1 != 0) {
			return nil
		}
	}
}
