// A candidate with client-go's elector, for tests/leader/client_go.rs. It says what happens on its standard output, and
// gives the Lease up and ends when its standard input is closed.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	server, namespace, name, identity := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	// The embedded server reads no protobuf.
	config := &rest.Config{Host: server, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	client := kubernetes.NewForConfigOrDie(config)
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration:   6 * time.Second,
		RenewDeadline:   4 * time.Second,
		RetryPeriod:     500 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { fmt.Println("leads") },
			OnStoppedLeading: func() { fmt.Println("leads no more") },
			OnNewLeader:      func(leader string) { fmt.Printf("sees %q\n", leader) },
		},
	})
}
