// LargeEvents URI SCOPE STREAM write SIZE...: writes events of these sizes with one key; the byte at an offset is offset * 31.
// LargeEvents URI SCOPE STREAM read COUNT: reads so many events, and prints size and checksum (CRC-32) of each.
import io.pravega.client.ClientConfig;
import io.pravega.client.EventStreamClientFactory;
import io.pravega.client.admin.ReaderGroupManager;
import io.pravega.client.stream.EventStreamReader;
import io.pravega.client.stream.EventStreamWriter;
import io.pravega.client.stream.EventWriterConfig;
import io.pravega.client.stream.ReaderConfig;
import io.pravega.client.stream.ReaderGroupConfig;
import io.pravega.client.stream.Stream;
import io.pravega.client.stream.impl.ByteBufferSerializer;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.zip.CRC32;

public class LargeEvents {
    public static void main(String[] args) throws Exception {
        ClientConfig config = ClientConfig.builder().controllerURI(URI.create(args[0])).build();
        try (EventStreamClientFactory factory = EventStreamClientFactory.withScope(args[1], config)) {
            if (args[3].equals("write")) {
                EventWriterConfig writing = EventWriterConfig.builder().enableLargeEvents(true).build();
                try (EventStreamWriter<ByteBuffer> writer =
                        factory.createEventWriter(args[2], new ByteBufferSerializer(), writing)) {
                    for (int each = 4; each < args.length; each++) {
                        byte[] event = new byte[Integer.parseInt(args[each])];
                        for (int offset = 0; offset < event.length; offset++) {
                            event[offset] = (byte) (offset * 31);
                        }
                        writer.writeEvent("key", ByteBuffer.wrap(event)).get();
                    }
                }
            } else {
                String group = "large" + System.nanoTime();
                try (ReaderGroupManager groups = ReaderGroupManager.withScope(args[1], config)) {
                    groups.createReaderGroup(
                            group, ReaderGroupConfig.builder().stream(Stream.of(args[1], args[2])).build());
                    try (EventStreamReader<ByteBuffer> reader = factory.createReader(
                            "reader", group, new ByteBufferSerializer(), ReaderConfig.builder().build())) {
                        for (int left = Integer.parseInt(args[4]); left > 0; ) {
                            ByteBuffer event = reader.readNextEvent(10_000).getEvent();
                            if (event != null) {
                                CRC32 sum = new CRC32();
                                int size = event.remaining();
                                sum.update(event);
                                System.out.println(size + " " + sum.getValue());
                                left--;
                            }
                        }
                    }
                }
            }
        }
        System.exit(0);
    }
}
