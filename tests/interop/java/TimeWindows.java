// TimeWindows URI SCOPE KIND: writes events with times, reads them through a reader group, prints each time window once:
// "WINDOW events lower upper". KIND is noted, automatic or transactions, and the name of the stream, which exists.
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.stream.*;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import java.net.URI;

public class TimeWindows {
    static final Serializer<String> TEXT = new UTF8StringSerializer();
    static final int ROUNDS = 4;
    static final int EVENTS = 20;

    public static void main(String[] args) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(args[0])).build();
        String scope = args[1];
        String kind = args[2];
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(scope, config);
             ReaderGroupManager groups = ReaderGroupManager.withScope(scope, config)) {
            int written = kind.equals("noted") ? noted(factory) : kind.equals("automatic") ? automatic(factory) : transactions(factory);
            groups.createReaderGroup("group", ReaderGroupConfig.builder().stream(Stream.of(scope, kind)).build());
            try (EventStreamReader<String> reader = factory.createReader("reader", "group", TEXT, ReaderConfig.builder().build())) {
                read(reader, Stream.of(scope, kind), written);
            }
        }
        System.exit(0);
    }

    static int noted(EventStreamClientFactory factory) throws Exception {
        EventWriterConfig config = EventWriterConfig.builder().build();
        try (EventStreamWriter<String> one = factory.createEventWriter("one", "noted", TEXT, config);
             EventStreamWriter<String> other = factory.createEventWriter("other", "noted", TEXT, config)) {
            for (int round = 1; round <= ROUNDS; round++) {
                for (int n = 0; n < EVENTS; n++) {
                    one.writeEvent("one" + n, round + ":" + n);
                    other.writeEvent("other" + n, round + ":" + n);
                }
                one.flush();
                other.flush();
                one.noteTime(100 * round);
                other.noteTime(100 * round + 7);
                Thread.sleep(1000);  // some rounds of the controller
            }
        }
        return 2 * EVENTS * ROUNDS;
    }

    static int automatic(EventStreamClientFactory factory) throws Exception {
        EventWriterConfig config = EventWriterConfig.builder().automaticallyNoteTime(true).build();
        int count = 120;
        try (EventStreamWriter<String> writer = factory.createEventWriter("writer", "automatic", TEXT, config)) {
            for (int n = 0; n < count; n++) {
                writer.writeEvent("key" + n, "" + n);
                Thread.sleep(100);  // times are noted every five seconds
            }
            writer.flush();
        }
        return count;
    }

    static int transactions(EventStreamClientFactory factory) throws Exception {
        EventWriterConfig config = EventWriterConfig.builder().transactionTimeoutTime(30000).build();
        try (TransactionalEventStreamWriter<String> writer = factory.createTransactionalEventWriter("writer", "transactions", TEXT, config)) {
            for (int round = 1; round <= ROUNDS; round++) {
                Transaction<String> transaction = writer.beginTxn();
                for (int n = 0; n < EVENTS; n++) {
                    transaction.writeEvent("key" + n, round + ":" + n);
                }
                transaction.commit(100L * round);
                while (transaction.checkStatus() != Transaction.Status.COMMITTED) {
                    Thread.sleep(20);
                }
                Thread.sleep(1000);
            }
        }
        return EVENTS * ROUNDS;
    }

    /** Reads everything, slowly: the client looks at its window every few seconds. Ends when a lower bound is known at the tail. */
    static void read(EventStreamReader<String> reader, Stream stream, int expected) throws Exception {
        int events = 0;
        String last = "";
        TimeWindow window;
        do {
            EventRead<String> read = reader.readNextEvent(500);
            if (read.getEvent() != null) {
                events++;
                Thread.sleep(4000 / expected);
            }
            window = reader.getCurrentTimeWindow(stream);
            String line = window.getLowerTimeBound() + " " + window.getUpperTimeBound();
            if (!line.equals(last)) {
                System.out.println("WINDOW " + events + " " + line);
                last = line;
            }
        } while (events < expected || window.getLowerTimeBound() == null || window.getUpperTimeBound() != null);
    }
}
