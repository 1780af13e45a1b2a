// Tokens URI SECONDS: writes for so long, so that tokens expire meanwhile, reads everything through a reader group whose
// reader waited since the beginning; then a large event, a transaction, a byte stream and a key-value table. The credentials
// are those of the environment. Prints what it did, one word and a number per line.
import io.pravega.client.*;
import io.pravega.client.admin.*;
import io.pravega.client.byteStream.*;
import io.pravega.client.stream.*;
import io.pravega.client.stream.impl.*;
import io.pravega.client.tables.*;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;

public class Tokens {
    static final Serializer<String> TEXT = new UTF8StringSerializer();
    static final String SCOPE = "java";

    public static void main(String[] args) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(args[0])).build();
        try (StreamManager streams = StreamManager.create(config)) {
            streams.createScope(SCOPE);
            for (String name : List.of("events", "large", "txn", "bytes")) {
                streams.createStream(SCOPE, name, StreamConfiguration.builder().scalingPolicy(ScalingPolicy.fixed(1)).build());
            }
        }
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(SCOPE, config);
             ReaderGroupManager groups = ReaderGroupManager.withScope(SCOPE, config)) {
            events(factory, groups, Integer.parseInt(args[1]));
            large(factory, groups);
            transaction(factory, groups);
        }
        bytes(config);
        table(config);
        System.exit(0);
    }

    static void events(EventStreamClientFactory factory, ReaderGroupManager groups, int seconds) throws Exception {
        groups.createReaderGroup("group", ReaderGroupConfig.builder().stream(Stream.of(SCOPE, "events")).build());
        List<String> read = Collections.synchronizedList(new ArrayList<>());
        try (EventStreamReader<String> reader = factory.createReader("reader", "group", TEXT, ReaderConfig.builder().build());
             EventStreamWriter<String> writer = factory.createEventWriter("writer", "events", TEXT, EventWriterConfig.builder().build())) {
            List<String> written = new ArrayList<>();
            long end = System.nanoTime() + seconds * 1_000_000_000L;
            ExecutorService executor = Executors.newSingleThreadExecutor();
            Future<?> reading = executor.submit(() -> {
                while (read.isEmpty() || !read.get(read.size() - 1).equals("last")) {
                    String event = reader.readNextEvent(1000).getEvent();
                    if (event != null) {
                        read.add(event);
                    }
                }
            });
            while (System.nanoTime() < end) {
                written.add("event" + written.size());
                writer.writeEvent("key", written.get(written.size() - 1));
                Thread.sleep(written.size() % 100 == 0 ? 2000 : 10);
            }
            written.add("last");
            writer.writeEvent("key", "last").get(60, TimeUnit.SECONDS);
            reading.get(60, TimeUnit.SECONDS);
            executor.shutdown();
            if (!read.equals(written)) {
                throw new IllegalStateException("read " + read.size() + " of " + written.size() + " events");
            }
            System.out.println("EVENTS " + written.size());
        }
    }

    static void large(EventStreamClientFactory factory, ReaderGroupManager groups) throws Exception {
        EventWriterConfig config = EventWriterConfig.builder().enableLargeEvents(true).build();
        String event = "x".repeat(9_000_000);
        try (EventStreamWriter<String> writer = factory.createEventWriter("large", TEXT, config)) {
            writer.writeEvent(event).get(60, TimeUnit.SECONDS);
        }
        System.out.println("LARGE " + readOne(factory, groups, "large").length());
    }

    static void transaction(EventStreamClientFactory factory, ReaderGroupManager groups) throws Exception {
        try (TransactionalEventStreamWriter<String> writer = factory.createTransactionalEventWriter("w", "txn", TEXT, EventWriterConfig.builder().build())) {
            Transaction<String> transaction = writer.beginTxn();
            transaction.writeEvent("key", "hello");
            transaction.commit();
        }
        System.out.println("TXN " + readOne(factory, groups, "txn").length());
    }

    static String readOne(EventStreamClientFactory factory, ReaderGroupManager groups, String stream) throws Exception {
        groups.createReaderGroup("group-" + stream, ReaderGroupConfig.builder().stream(Stream.of(SCOPE, stream)).build());
        try (EventStreamReader<String> reader = factory.createReader("reader", "group-" + stream, TEXT, ReaderConfig.builder().build())) {
            while (true) {
                String event = reader.readNextEvent(5000).getEvent();
                if (event != null) {
                    return event;
                }
            }
        }
    }

    static void bytes(ClientConfig config) throws Exception {
        try (ByteStreamClientFactory factory = ByteStreamClientFactory.withScope(SCOPE, config)) {
            try (ByteStreamWriter writer = factory.createByteStreamWriter("bytes")) {
                writer.write("hello".getBytes());
                writer.flush();
                writer.truncateDataBefore(2);
                writer.closeAndSeal();
            }
            try (ByteStreamReader reader = factory.createByteStreamReader("bytes")) {
                System.out.println("BYTES " + (reader.fetchTailOffset() - reader.fetchHeadOffset()));
            }
        }
    }

    static void table(ClientConfig config) throws Exception {
        try (KeyValueTableManager tables = KeyValueTableManager.create(config)) {
            tables.createKeyValueTable(SCOPE, "table", KeyValueTableConfiguration.builder().partitionCount(2).primaryKeyLength(4).secondaryKeyLength(0).build());
        }
        try (KeyValueTableFactory factory = KeyValueTableFactory.withScope(SCOPE, config);
             KeyValueTable table = factory.forKeyValueTable("table", KeyValueTableClientConfiguration.builder().build())) {
            TableKey key = new TableKey(ByteBuffer.wrap("abcd".getBytes()));
            table.update(new Insert(key, ByteBuffer.wrap("value".getBytes()))).get(60, TimeUnit.SECONDS);
            System.out.println("TABLE " + table.get(key).get(60, TimeUnit.SECONDS).getValue().remaining());
        }
    }
}
