#nullable enable
using System;
using System.Linq;

namespace Shop
{
    public class Basket<T> where T : IItem
    {
        private readonly string text = $"{nameof(T)} costs {42:0.00}";
#if DEBUG
        public const bool Debug = true;
#endif
        public Basket(T[] items) => Items = items;
        public T[] Items { get; init; }

        public decimal Total(Func<T, bool> chosen)
        {
            decimal sum = 0m;
            foreach (var item in Items.Where(chosen))
            {
                sum += item.Price switch { < 0 => throw new ArgumentException("negative"), var p => p };
            }
            return sum;
        }
    }
}
