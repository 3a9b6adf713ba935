// A client-go program on a server that a test owns: shared informers of ConfigMaps and Deployments, whose events it prints, and
// commands from its standard input, one a line.
//
//	informer KUBECONFIG
//
// Each command ends with a line `done` or `failed: why`. The feature gate KUBE_FEATURE_WatchListClient says how it lists.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	apply "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
)

const namespace = "default"

var printing sync.Mutex

func say(format string, args ...any) {
	printing.Lock()
	defer printing.Unlock()
	fmt.Printf(format+"\n", args...)
}

func main() {
	if err := run(); err != nil {
		say("failed: %v", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[1])
	if err != nil {
		return err
	}
	config.ContentType = runtime.ContentTypeJSON // the server reads no protobuf, which typed clients send else
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	maps := factory.Core().V1().ConfigMaps()
	deployments := factory.Apps().V1().Deployments()
	for _, informer := range []cache.SharedIndexInformer{maps.Informer(), deployments.Informer()} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { say("add %s", shown(object)) },
			UpdateFunc: func(_, object any) { say("update %s", shown(object)) },
			DeleteFunc: func(object any) {
				if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
					object = unknown.Obj
				}
				say("delete %s", shown(object))
			},
		}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v did not sync", kind)
		}
	}
	say("synced")
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		if err := command(ctx, client, maps.Lister(), strings.Fields(commands.Text())); err != nil {
			say("failed: %v", err)
		} else {
			say("done")
		}
	}
	cancel()
	factory.Shutdown()
	return nil
}

func shown(object any) string {
	switch object := object.(type) {
	case *corev1.ConfigMap:
		return fmt.Sprintf("configmap %s %s", object.Name, object.Data["k"])
	case *appsv1.Deployment:
		return fmt.Sprintf("deployment %s %d", object.Name, *object.Spec.Replicas)
	}
	return fmt.Sprintf("%T", object)
}

func command(ctx context.Context, client kubernetes.Interface, lister listers.ConfigMapLister, words []string) error {
	maps, deployments := client.CoreV1().ConfigMaps(namespace), client.AppsV1().Deployments(namespace)
	switch words[0] {
	case "cache": // what the lister has
		all, err := lister.List(labels.Everything())
		if err != nil {
			return err
		}
		names := []string{}
		for _, object := range all {
			names = append(names, object.Name+"="+object.Data["k"])
		}
		sort.Strings(names)
		say("cache %s", strings.Join(names, " "))
		return nil
	case "list": // in pages
		names, options := []string{}, metav1.ListOptions{Limit: 2}
		for {
			page, err := maps.List(ctx, options)
			if err != nil {
				return err
			}
			for _, object := range page.Items {
				names = append(names, object.Name)
			}
			if options.Continue = page.Continue; page.Continue == "" {
				break
			}
		}
		say("list %s", strings.Join(names, " "))
		return nil
	case "create":
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: words[1]}, Data: map[string]string{"k": words[2]}}
		_, err := maps.Create(ctx, object, metav1.CreateOptions{})
		return err
	case "update":
		object, err := maps.Get(ctx, words[1], metav1.GetOptions{})
		if err != nil {
			return err
		}
		object.Data["k"] = words[2]
		_, err = maps.Update(ctx, object, metav1.UpdateOptions{})
		return err
	case "patch":
		patch := []byte(fmt.Sprintf(`{"data": {"k": %q}}`, words[2]))
		_, err := maps.Patch(ctx, words[1], types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		return err
	case "apply":
		object := apply.ConfigMap(words[1], namespace).WithData(map[string]string{"k": words[2]})
		_, err := maps.Apply(ctx, object, metav1.ApplyOptions{FieldManager: "go", Force: true})
		return err
	case "delete":
		return maps.Delete(ctx, words[1], metav1.DeleteOptions{})
	case "scale":
		replicas, err := strconv.Atoi(words[2])
		if err != nil {
			return err
		}
		scale, err := deployments.GetScale(ctx, words[1], metav1.GetOptions{})
		if err != nil {
			return err
		}
		scale.Spec.Replicas = int32(replicas)
		_, err = deployments.UpdateScale(ctx, words[1], scale, metav1.UpdateOptions{})
		return err
	case "wait": // until the value is so, by a watch of this one object
		say("waiting")
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		only := fields.OneTermEqualSelector("metadata.name", words[1]).String()
		source := &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				options.FieldSelector = only
				return maps.List(ctx, options)
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				options.FieldSelector = only
				return maps.Watch(ctx, options)
			},
		}
		_, err := watchtools.UntilWithSync(ctx, source, &corev1.ConfigMap{}, nil, func(event watch.Event) (bool, error) {
			object, ok := event.Object.(*corev1.ConfigMap)
			return ok && event.Type != watch.Deleted && object.Data["k"] == words[2], nil
		})
		return err
	}
	return fmt.Errorf("no command %q", words[0])
}
