// Writer URI SCOPE STREAM: writes numbered events "key number ", a round for all keys twenty times a second, until something
// is on standard input; then makes all of them durable and prints how many rounds there were. The keys are WRITER_PREFIX with
// a number below WRITER_KEYS.
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.impl.UTF8StringSerializer;
import java.net.URI;

public class Writer {
    public static void main(String[] args) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(args[0])).build();
        EventWriterConfig writing = EventWriterConfig.builder().retryAttempts(1000).maxBackoffMillis(1000).build();
        String prefix = System.getenv("WRITER_PREFIX");
        int keys = Integer.parseInt(System.getenv("WRITER_KEYS")), rounds = 0;
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(args[1], config);
                EventStreamWriter<String> writer =
                        factory.createEventWriter(args[2], new UTF8StringSerializer(), writing)) {
            while (System.in.available() == 0) {
                for (int key = 0; key < keys; key++) {
                    writer.writeEvent(prefix + key, prefix + key + " " + rounds + " ");
                }
                rounds++;
                Thread.sleep(50);
            }
            writer.flush();
        }
        System.out.println(rounds);
        System.exit(0);
    }
}
