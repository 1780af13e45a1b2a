// Secure URI AUTHORITY SCOPE CASE USER...: what users may do, with certificates and passwords. AUTHORITY is a file of PEM, a USER
// is "label:name:password"; the first one may do everything, and makes what the others try. Without a password it
// shows no credentials. A case is one of the methods below. What it finds is printed as "FACT label action outcome", an
// exception by its simple name or its code of gRPC.
import io.pravega.client.*;
import io.pravega.client.admin.*;
import io.pravega.client.batch.SegmentIterator;
import io.pravega.client.batch.SegmentRange;
import io.pravega.client.byteStream.*;
import io.pravega.client.stream.*;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import io.pravega.client.tables.*;
import io.pravega.shared.security.auth.DefaultCredentials;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;

public class Secure {
    static final Serializer<String> TEXT = new UTF8StringSerializer();
    static final int EVENTS = 20;
    static final long LIMIT_S = 40;
    static final int WRITER_ATTEMPTS = 3;  // of 10, which take a minute and a half
    static final ExecutorService threads = Executors.newCachedThreadPool();
    static URI uri;
    static String authority;
    static String scope;
    static List<User> users = new ArrayList<>();
    static AtomicInteger numbers = new AtomicInteger();

    public static void main(String[] args) throws Exception {
        uri = URI.create(args[0]);
        authority = args[1];
        scope = args[2];
        for (String each : Arrays.copyOfRange(args, 4, args.length)) {
            users.add(new User(each));
        }
        try {
            Secure.class.getDeclaredMethod(args[3]).invoke(null);
        } catch (Throwable error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);
    }

    // ---------------------------------------------------------------------------------------- cases

    /** Every user tries every action. */
    static void actions() throws Exception {
        User owner = users.get(0);
        owner.streams.createScope(scope);
        owner.create("shared", 2);
        owner.write("shared", EVENTS);
        owner.tables().createKeyValueTable(scope, "table", tableOf(2));
        owner.put("table");
        for (User user : users) {
            String own = user.label + "-made";
            user.tries("createStream", () -> user.create(own, 1));
            user.tries("listStreams", () -> list(user.streams.listStreams(scope)));
            user.tries("streamExists", () -> user.streams.checkStreamExists(scope, "shared"));
            user.tries("streamInfo", () -> user.streams.fetchStreamInfo(scope, "shared").get());
            user.tries("updateStream", () -> user.streams.updateStream(scope, "shared", fixed(2)));
            user.tries("write", () -> user.write("shared", 1));
            user.tries("writeInTransaction", () -> user.writeInTransaction("shared"));
            user.tries("readWithGroup", () -> user.readWithGroup("shared", "g-" + user.label + numbers.incrementAndGet()));
            user.tries("readInBatches", () -> user.readInBatches("shared"));
            user.tries("createTable", () -> user.tables().createKeyValueTable(scope, own, tableOf(1)));
            user.tries("listTables", () -> list(user.tables().listKeyValueTables(scope)));
            user.tries("put", () -> user.put("table"));
            user.tries("get", () -> user.get("table"));
            user.tries("truncate", () -> user.streams.truncateStream(
                scope, "shared", owner.streams.fetchStreamInfo(scope, "shared").get().getHeadStreamCut()));
            user.tries("createScope", () -> user.streams.createScope(user.label + "-scope"));
            user.tries("listScopes", () -> list(user.streams.listScopes()));
            user.tries("deleteTable", () -> user.tables().deleteKeyValueTable(scope, own));
            user.tries("deleteStream", () -> {
                if (!user.streams.sealStream(scope, own)) {
                    throw new IllegalStateException("not sealed");
                }
                return user.streams.deleteStream(scope, own);
            });
        }
    }

    /** One user does everything that the client can do, until it has read what it wrote. */
    static void everything() throws Exception {
        User user = users.get(0);
        user.streams.createScope(scope);
        user.create("events", 2);
        user.create("bytes", 1);
        user.write("events", EVENTS);
        user.writeInTransaction("events");
        fact(user, "groups", user.readWithGroup("events", "group"));
        fact(user, "batches", user.readInBatches("events"));
        try (ByteStreamClientFactory factory = ByteStreamClientFactory.withScope(scope, user.config)) {
            try (ByteStreamWriter writer = factory.createByteStreamWriter("bytes")) {
                writer.write(new byte[1000]);
                writer.flush();
            }
            try (ByteStreamReader reader = factory.createByteStreamReader("bytes")) {
                byte[] read = new byte[1000];
                int count = 0;
                while (count < read.length) {
                    count += reader.read(read, count, read.length - count);
                }
                fact(user, "bytes", count);
            }
        }
        user.tables().createKeyValueTable(scope, "table", tableOf(2));
        user.put("table");
        fact(user, "value", user.get("table"));
        fact(user, "scaled", user.streams.updateStream(scope, "events", fixed(3)));
        fact(user, "deletedTable", user.tables().deleteKeyValueTable(scope, "table"));
        for (String stream : List.of("events", "bytes")) {
            fact(user, "deleted-" + stream, user.streams.sealStream(scope, stream) && user.streams.deleteStream(scope, stream));
        }
        fact(user, "deletedScope", user.streams.deleteScope(scope));
    }

    // ---------------------------------------------------------------------------------------- a user

    static class User {
        final String label;
        final ClientConfig config;
        final StreamManager streams;

        User(String words) {
            String[] parts = words.split(":", 3);
            label = parts[0];
            ClientConfig.ClientConfigBuilder builder =
                ClientConfig.builder().controllerURI(uri).trustStore(authority).validateHostName(true);
            config = (parts[2].isEmpty() ? builder : builder.credentials(new DefaultCredentials(parts[2], parts[1]))).build();
            streams = StreamManager.create(config);
        }

        /** Print what becomes of it: "done", or the exception below all wrappers. A refusal does not take long. */
        void tries(String action, Callable<Object> call) {
            long begun = System.nanoTime();
            String outcome;
            Future<Object> running = threads.submit(call);
            try {
                Object got = running.get(LIMIT_S, TimeUnit.SECONDS);
                outcome = Boolean.FALSE.equals(got) ? "false" : "done";
            } catch (TimeoutException | InterruptedException error) {
                running.cancel(true);
                outcome = "hangs";
            } catch (ExecutionException error) {
                outcome = nameOf(error);
                if (System.getenv("SECURE_TRACE") != null) {
                    System.err.println("=== " + label + " " + action);
                    error.getCause().printStackTrace();
                }
            }
            System.err.println(label + " " + action + " " + outcome + " " + (System.nanoTime() - begun) / 1_000_000 + " ms");
            fact(this, action, outcome);
        }

        boolean create(String stream, int segments) {
            return streams.createStream(scope, stream, fixed(segments));
        }

        KeyValueTableManager tables() {
            return KeyValueTableManager.create(config);
        }

        boolean write(String stream, int events) throws Exception {
            try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, config);
                    EventStreamWriter<String> writer = factory.createEventWriter(
                        stream, TEXT, EventWriterConfig.builder().retryAttempts(WRITER_ATTEMPTS).build())) {
                for (int event = 0; event < events; event++) {
                    writer.writeEvent("key" + event, "event " + event).get(30, TimeUnit.SECONDS);
                }
            }
            return true;
        }

        boolean writeInTransaction(String stream) throws Exception {
            try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, config);
                    TransactionalEventStreamWriter<String> writer =
                        factory.createTransactionalEventWriter(stream, TEXT, EventWriterConfig.builder().build())) {
                Transaction<String> transaction = writer.beginTxn();
                transaction.writeEvent("key", "in a transaction");
                transaction.commit();
                Transaction<String> dropped = writer.beginTxn();
                dropped.writeEvent("key", "never seen");
                dropped.abort();
            }
            return true;
        }

        int readWithGroup(String stream, String group) throws Exception {
            int events = 0;
            try (ReaderGroupManager groups = ReaderGroupManager.withScope(scope, config);
                    EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, config)) {
                groups.createReaderGroup(group, ReaderGroupConfig.builder().stream(Stream.of(scope, stream))
                    .disableAutomaticCheckpoints().build());
                try (ReaderGroup readers = groups.getReaderGroup(group)) {
                    try (EventStreamReader<String> reader = factory.createReader("reader", group, TEXT, ReaderConfig.builder().build())) {
                        ScheduledExecutorService executor = Executors.newSingleThreadScheduledExecutor();
                        CompletableFuture<Checkpoint> checkpoint = null;
                        int nothing = 0;
                        while (nothing < 2 || !checkpoint.isDone()) {
                            EventRead<String> read = reader.readNextEvent(1000);
                            if (read.getEvent() != null) {
                                events++;
                            } else if (!read.isCheckpoint()) {
                                nothing++;
                            }
                            if (checkpoint == null) {
                                checkpoint = readers.initiateCheckpoint("checkpoint", executor);
                            }
                        }
                        checkpoint.get();
                        executor.shutdown();
                    }
                }
                groups.deleteReaderGroup(group);
            }
            return events;
        }

        int readInBatches(String stream) throws Exception {
            int events = 0;
            try (BatchClientFactory factory = BatchClientFactory.withScope(scope, config)) {
                Iterator<SegmentRange> ranges = factory.getSegments(Stream.of(scope, stream), null, null).getIterator();
                while (ranges.hasNext()) {
                    try (SegmentIterator<String> read = factory.readSegment(ranges.next(), TEXT)) {
                        while (read.hasNext()) {
                            read.next();
                            events++;
                        }
                    }
                }
            }
            return events;
        }

        boolean put(String table) throws Exception {
            try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(scope, config);
                    KeyValueTable open = factory.forKeyValueTable(table, KeyValueTableClientConfiguration.builder().build())) {
                open.update(new Put(new TableKey(ByteBuffer.wrap(new byte[] {0, 0, 0, 1})), ByteBuffer.wrap(new byte[] {7}))).get(30, TimeUnit.SECONDS);
            }
            return true;
        }

        int get(String table) throws Exception {
            try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(scope, config);
                    KeyValueTable open = factory.forKeyValueTable(table, KeyValueTableClientConfiguration.builder().build())) {
                return open.get(new TableKey(ByteBuffer.wrap(new byte[] {0, 0, 0, 1}))).get(30, TimeUnit.SECONDS).getValue().get(0);
            }
        }
    }

    // ---------------------------------------------------------------------------------------- small things

    /** The innermost exception that is the client's own, or a status of gRPC with its code. */
    static String nameOf(Throwable error) {
        String found = "";
        for (Throwable each = error; each != null; each = each.getCause()) {
            if (each instanceof io.grpc.StatusRuntimeException) {
                return ((io.grpc.StatusRuntimeException) each).getStatus().getCode().name();
            }
            if (!(each instanceof ExecutionException || each instanceof CompletionException)) {
                found = each.getClass().getSimpleName();
            }
        }
        return found;
    }

    static <T> List<T> list(Iterator<T> items) {
        List<T> all = new ArrayList<>();
        items.forEachRemaining(all::add);
        return all;
    }

    static StreamConfiguration fixed(int segments) {
        return StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(segments)).build();
    }

    static KeyValueTableConfiguration tableOf(int partitions) {
        return KeyValueTableConfiguration.builder().partitionCount(partitions).primaryKeyLength(4).secondaryKeyLength(0).build();
    }

    static void fact(User user, String action, Object outcome) {
        System.out.println("FACT " + user.label + " " + action + " " + outcome);
    }
}
